"""The HTTP interface."""

from typing import Annotated, Literal

from fastapi import FastAPI, Path
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.requests import Request

from .greeting import MAX_NAME_LENGTH, InvalidNameError, greet


class Health(BaseModel):
    status: Literal["ok"] = "ok"


class Greeting(BaseModel):
    message: str


async def refuse_invalid_name(_request: Request, error: Exception) -> JSONResponse:
    return JSONResponse(status_code=422, content={"detail": str(error)})


def create_app() -> FastAPI:
    app = FastAPI(title="{{slug}}")
    app.add_exception_handler(InvalidNameError, refuse_invalid_name)

    @app.get("/health")
    async def health() -> Health:
        return Health()

    @app.get("/greetings/{name}")
    async def read_greeting(name: Annotated[str, Path(max_length=MAX_NAME_LENGTH)]) -> Greeting:
        return Greeting(message=greet(name))

    return app
