import pytest
from flask.testing import FlaskClient

from {{module}}.app import create_app
from {{module}}.greeting import MAX_NAME_LENGTH


@pytest.fixture
def client() -> FlaskClient:
    app = create_app()
    app.config["TESTING"] = True
    return app.test_client()


def test_is_healthy(client: FlaskClient) -> None:
    response = client.get("/health")
    assert response.status_code == 200
    assert response.get_json() == {"status": "ok"}


def test_greets_by_name(client: FlaskClient) -> None:
    response = client.get("/greetings/Ada")
    assert response.status_code == 200
    assert response.get_json() == {"message": "Hello, Ada!"}


@pytest.mark.parametrize("name", ["%20", "x" * (MAX_NAME_LENGTH + 1)])
def test_refuses_an_invalid_name(client: FlaskClient, name: str) -> None:
    assert client.get(f"/greetings/{name}").status_code == 422


def test_answers_in_json_where_there_is_nothing(client: FlaskClient) -> None:
    response = client.get("/nowhere")
    assert response.status_code == 404
    assert response.get_json() == {"error": "Not Found"}
