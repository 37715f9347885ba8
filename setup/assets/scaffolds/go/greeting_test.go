package greeting_test

import (
	"errors"
	"strings"
	"testing"

	"example.com/{{slug}}/internal/greeting"
)

func TestGreet(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"Ada":     "Hello, Ada!",
		"  Ada\n": "Hello, Ada!",
		strings.Repeat("ä", greeting.MaxNameLength): "Hello, " + strings.Repeat("ä", greeting.MaxNameLength) + "!",
	} {
		got, err := greeting.Greet(name)
		if err != nil {
			t.Errorf("Greet(%q) failed: %v", name, err)
		}
		if got != want {
			t.Errorf("Greet(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestGreetRefusesAnInvalidName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "  ", strings.Repeat("x", greeting.MaxNameLength+1)} {
		if _, err := greeting.Greet(name); !errors.Is(err, greeting.ErrInvalidName) {
			t.Errorf("Greet(%q) gave the error %v, want %v", name, err, greeting.ErrInvalidName)
		}
	}
}
