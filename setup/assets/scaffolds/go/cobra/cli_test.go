package cli_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"example.com/{{slug}}/internal/cli"
	"example.com/{{slug}}/internal/greeting"
)

func run(args ...string) (string, error) {
	var out bytes.Buffer
	root := cli.New()
	root.SetArgs(args)
	root.SetOut(&out)
	root.SetErr(io.Discard)
	err := root.Execute()
	return out.String(), err
}

func TestGreet(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"Hello, Ada!\n": {"greet", "Ada"},
		"HELLO, ADA!\n": {"greet", "--shout", "Ada"},
	} {
		got, err := run(args...)
		if err != nil {
			t.Errorf("%v failed: %v", args, err)
		}
		if got != want {
			t.Errorf("%v printed %q, want %q", args, got, want)
		}
	}
}

func TestGreetRefusesAnInvalidName(t *testing.T) {
	t.Parallel()
	if _, err := run("greet", "  "); !errors.Is(err, greeting.ErrInvalidName) {
		t.Errorf("got the error %v, want %v", err, greeting.ErrInvalidName)
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	got, err := run("--version")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(got, "0.1.0") {
		t.Errorf("printed %q", got)
	}
}
