"""The HTTP interface."""

from http import HTTPStatus

from flask import Flask
from flask.typing import ResponseReturnValue
from werkzeug.exceptions import HTTPException

from .greeting import InvalidNameError, greet


def create_app() -> Flask:
    app = Flask(__name__)

    @app.get("/health")
    def health() -> ResponseReturnValue:
        return {"status": "ok"}

    @app.get("/greetings/<name>")
    def read_greeting(name: str) -> ResponseReturnValue:
        return {"message": greet(name)}

    @app.errorhandler(InvalidNameError)
    def refuse_invalid_name(error: InvalidNameError) -> ResponseReturnValue:
        return {"error": str(error)}, HTTPStatus.UNPROCESSABLE_ENTITY

    @app.errorhandler(HTTPException)
    def answer_in_json(error: HTTPException) -> ResponseReturnValue:
        return {"error": error.name}, error.code or HTTPStatus.INTERNAL_SERVER_ERROR

    return app
