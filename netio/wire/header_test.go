package wire

import (
	"bytes"
	"strings"
	"testing"
)

func TestRequestHeader(t *testing.T) {
	flexible := func(key, version int16) bool { return key == KeyApiVersions && version >= 3 }
	cases := []struct {
		name    string
		payload string
		want    RequestHeader
		err     string
	}{
		{name: "v1", payload: "\x00\x03\x00\x01\x00\x00\x00\x07\x00\x02me+body",
			want: RequestHeader{Key: 3, Version: 1, CorrelationID: 7, ClientID: []byte("me"), Body: []byte("+body")}},
		{name: "v1 null client id", payload: "\x00\x03\x00\x01\xff\xff\xff\xff\xff\xff+",
			want: RequestHeader{Key: 3, Version: 1, CorrelationID: -1, Body: []byte("+")}},
		{name: "any negative length is null", payload: "\x00\x03\x00\x01\x00\x00\x00\x07\x80\x00",
			want: RequestHeader{Key: 3, Version: 1, CorrelationID: 7, Body: []byte{}}},
		{name: "v2 keeps the int16 client id", payload: "\x00\x12\x00\x03\x00\x00\x00\x07\x00\x02me\x00+",
			want: RequestHeader{Key: 18, Version: 3, CorrelationID: 7, ClientID: []byte("me"), Body: []byte("+")}},
		{name: "v2 unknown tags", payload: "\x00\x12\x00\x63\x00\x00\x00\x07\x00\x00\x02\x05\x01x\x80\x01\x02yz+",
			want: RequestHeader{Key: 18, Version: 99, CorrelationID: 7, ClientID: []byte{}, Body: []byte("+")}},
		{name: "empty", err: "RequestHeader v1: field RequestApiKey at byte 0: needs 2 bytes, 0 remain"},
		{name: "cut client id", payload: "\x00\x03\x00\x01\x00\x00\x00\x07\x00\x02m",
			want: RequestHeader{Key: 3, Version: 1, CorrelationID: 7},
			err:  "RequestHeader v1: field ClientId at byte 10: needs 2 bytes, 1 remain"},
		{name: "cut tag", payload: "\x00\x12\x00\x03\x00\x00\x00\x07\x00\x00\x01\x05\x09x",
			want: RequestHeader{Key: 18, Version: 3, CorrelationID: 7},
			err:  "RequestHeader v1: field header tags at byte 12: needs 9 bytes, 1 remain"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			h, err := ParseRequestHeader([]byte(c.payload), flexible)
			if got := text(err); got != c.err {
				t.Fatalf("error %q, want %q", got, c.err)
			}
			if h.Key != c.want.Key || h.Version != c.want.Version || h.CorrelationID != c.want.CorrelationID ||
				!bytes.Equal(h.Body, c.want.Body) || (h.Body == nil) != (c.want.Body == nil) {
				t.Fatalf("header %+v, want %+v", h, c.want)
			}
			if err == nil && (!bytes.Equal(h.ClientID, c.want.ClientID) || (h.ClientID == nil) != (c.want.ClientID == nil)) {
				t.Fatalf("client id %q, want %q", h.ClientID, c.want.ClientID)
			}
		})
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestRequestHeaderRoundTrip(t *testing.T) {
	for _, flexible := range []bool{false, true} {
		for _, client := range [][]byte{nil, {}, []byte("me"), bytes.Repeat([]byte("x"), 32767)} {
			payload := AppendRequestHeader([]byte("before"), 1, 12, 42, client, flexible)[6:]
			payload = append(payload, "body"...)
			h, err := ParseRequestHeader(payload, func(int16, int16) bool { return flexible })
			if err != nil || h.Key != 1 || h.Version != 12 || h.CorrelationID != 42 || string(h.Body) != "body" ||
				!bytes.Equal(h.ClientID, client) || (h.ClientID == nil) != (client == nil) {
				t.Fatalf("%+v, %v", h, err)
			}
		}
	}
}

func TestResponseHeader(t *testing.T) {
	cases := []struct {
		key, version int16
		flexible     bool
		want         string
	}{
		{KeyFetch, 11, false, "\x00\x00\x00\x2a"},
		{KeyFetch, 12, true, "\x00\x00\x00\x2a\x00"},
		{KeyApiVersions, 0, false, "\x00\x00\x00\x2a"},
		{KeyApiVersions, 4, true, "\x00\x00\x00\x2a"},
		{17, 1, false, "\x00\x00\x00\x2a"}, // SaslHandshake never is flexible
	}
	for _, c := range cases {
		got := AppendResponseHeader(nil, c.key, c.version, 42, c.flexible)
		if string(got) != c.want {
			t.Errorf("key %d v%d: %x, want %x", c.key, c.version, got, c.want)
		}
		id, body, err := ParseResponseHeader(append(got, "body"...), c.key, c.flexible)
		if id != 42 || string(body) != "body" || err != nil {
			t.Errorf("key %d v%d: parsed %d, %q, %v", c.key, c.version, id, body, err)
		}
	}
	if _, _, err := ParseResponseHeader([]byte{0, 0, 0}, KeyFetch, true); err == nil || !strings.Contains(err.Error(), "CorrelationId at byte 0") {
		t.Errorf("cut header: %v", err)
	}
}
