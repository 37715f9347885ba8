// Package greeting knows what is said to whom.
package greeting

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// MaxNameLength is how many characters a name may have.
const MaxNameLength = 64

// ErrInvalidName tells of a name that nobody can be greeted by.
var ErrInvalidName = errors.New("invalid name")

// Greet greets somebody by name.
func Greet(name string) (string, error) {
	name = strings.TrimSpace(name)
	if name == "" {
		return "", fmt.Errorf("%w: it is empty", ErrInvalidName)
	}
	if utf8.RuneCountInString(name) > MaxNameLength {
		return "", fmt.Errorf("%w: it is longer than %d characters", ErrInvalidName, MaxNameLength)
	}
	return "Hello, " + name + "!", nil
}
