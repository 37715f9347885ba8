package api_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"example.com/{{slug}}/internal/api"
	"example.com/{{slug}}/internal/greeting"
)

func get(t *testing.T, path string) (int, map[string]string) {
	t.Helper()
	recorder := httptest.NewRecorder()
	api.New().ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, http.NoBody))
	var body map[string]string
	if err := json.Unmarshal(recorder.Body.Bytes(), &body); err != nil {
		t.Fatalf("GET %s did not answer in JSON: %v", path, err)
	}
	return recorder.Code, body
}

func TestHealth(t *testing.T) {
	t.Parallel()
	code, body := get(t, "/health")
	if code != http.StatusOK || body["status"] != "ok" {
		t.Errorf("got %d %v", code, body)
	}
}

func TestGreeting(t *testing.T) {
	t.Parallel()
	code, body := get(t, "/greetings/Ada")
	if code != http.StatusOK || body["message"] != "Hello, Ada!" {
		t.Errorf("got %d %v", code, body)
	}
}

func TestGreetingRefusesAnInvalidName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"%20", strings.Repeat("x", greeting.MaxNameLength+1)} {
		code, body := get(t, "/greetings/"+name)
		if code != http.StatusUnprocessableEntity || !strings.HasPrefix(body["error"], "invalid name") {
			t.Errorf("%q: got %d %v", name, code, body)
		}
	}
}

func TestNothingElsewhere(t *testing.T) {
	t.Parallel()
	if code, _ := get(t, "/nowhere"); code != http.StatusNotFound {
		t.Errorf("got %d", code)
	}
}
