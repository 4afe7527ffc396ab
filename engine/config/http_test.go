package config

import (
	"slices"
	"strings"
	"testing"
)

func TestHTTPListeners(t *testing.T) {
	for _, c := range []struct {
		value    []string // of http.listeners; nil is unset
		want     []string
		explicit bool
	}{
		{nil, []string{"127.0.0.1:9644"}, false},
		{[]string{"http.listeners=127.0.0.1:9644"}, []string{"127.0.0.1:9644"}, true},
		{[]string{"http.listeners="}, nil, true},
		{[]string{"http.listeners=:80, [::1]:81"}, []string{":80", "[::1]:81"}, true},
	} {
		b, _ := mustLoad(t, c.value...)
		if !slices.Equal(b.HTTP.Listeners, c.want) || b.HTTP.Explicit != c.explicit {
			t.Errorf("%v: listeners %q, explicit %t", c.value, b.HTTP.Listeners, b.HTTP.Explicit)
		}
	}
	for _, bad := range []string{"127.0.0.1", "::1:9644", "host:70000", "host:http"} {
		if _, _, err := Load(p("http.listeners="+bad), nil); err == nil || !strings.Contains(err.Error(), "http.listeners") {
			t.Errorf("http.listeners=%s: %v", bad, err)
		}
	}
}
