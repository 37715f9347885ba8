// Package api is the HTTP interface.
package api

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"example.com/{{slug}}/internal/greeting"
)

// New makes the handler of all requests.
func New() http.Handler {
	router := gin.New()
	router.Use(gin.Logger(), gin.Recovery())
	router.GET("/health", health)
	router.GET("/greetings/:name", greet)
	router.NoRoute(func(c *gin.Context) {
		c.JSON(http.StatusNotFound, gin.H{"error": "not found"})
	})
	return router
}

func health(c *gin.Context) {
	c.JSON(http.StatusOK, gin.H{"status": "ok"})
}

func greet(c *gin.Context) {
	message, err := greeting.Greet(c.Param("name"))
	if err != nil {
		c.JSON(http.StatusUnprocessableEntity, gin.H{"error": err.Error()})
		return
	}
	c.JSON(http.StatusOK, gin.H{"message": message})
}
