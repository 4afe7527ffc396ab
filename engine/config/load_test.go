package config

import "testing"

func TestDefaultsLoad(t *testing.T) {
	b, warnings, err := Load(nil, nil)
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	t.Logf("%+v", *b)
}
