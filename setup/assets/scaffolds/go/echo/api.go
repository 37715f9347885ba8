// Package api is the HTTP interface.
package api

import (
	"net/http"

	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"

	"example.com/{{slug}}/internal/greeting"
)

// New makes the handler of all requests.
func New() http.Handler {
	e := echo.New()
	e.Use(middleware.RequestLogger(), middleware.Recover())
	e.GET("/health", health)
	e.GET("/greetings/:name", greet)
	return e
}

func health(c *echo.Context) error {
	return c.JSON(http.StatusOK, map[string]string{"status": "ok"})
}

func greet(c *echo.Context) error {
	message, err := greeting.Greet(c.Param("name"))
	if err != nil {
		return c.JSON(http.StatusUnprocessableEntity, map[string]string{"error": err.Error()})
	}
	return c.JSON(http.StatusOK, map[string]string{"message": message})
}
