from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from {{module}}.app import create_app
from {{module}}.greeting import MAX_NAME_LENGTH


@pytest.fixture
def client() -> Iterator[TestClient]:
    with TestClient(create_app()) as client:
        yield client


def test_is_healthy(client: TestClient) -> None:
    response = client.get("/health")
    assert response.status_code == 200
    assert response.json() == {"status": "ok"}


def test_greets_by_name(client: TestClient) -> None:
    response = client.get("/greetings/Ada")
    assert response.status_code == 200
    assert response.json() == {"message": "Hello, Ada!"}


@pytest.mark.parametrize("name", ["%20", "x" * (MAX_NAME_LENGTH + 1)])
def test_refuses_an_invalid_name(client: TestClient, name: str) -> None:
    assert client.get(f"/greetings/{name}").status_code == 422


def test_describes_itself(client: TestClient) -> None:
    assert "/greetings/{name}" in client.get("/openapi.json").json()["paths"]
