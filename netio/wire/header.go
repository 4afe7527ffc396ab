package wire

// RequestHeader is the header of a request, v1 or v2 (RequestHeader.json).
//
// Header v0, without a client id, belonged to ControlledShutdown v0 alone, which
// no broker serves since Kafka 4.0.
type RequestHeader struct {
	Key, Version  int16
	CorrelationID int32
	ClientID      []byte // slice of the payload; nil = null
	Body          []byte // what follows the header; slice of the payload
}

// ParseRequestHeader parses the header of a request; payload is the frame
// without its length prefix. flexible says whether a request of that key and
// version is flexible, hence has header v2; it must answer for versions above
// the served range too, since ApiVersions in an unknown version is answered, not
// refused (KIP-511).
//
// On error the header holds what came before the fault (Body nil), so that the
// log line can name key and version; the error is a *DecodeError.
//
// The client id is an int16-prefixed string in both header versions: an older
// broker must be able to read the header of a newer ApiVersions request.
func ParseRequestHeader(payload []byte, flexible func(key, version int16) bool) (RequestHeader, error) {
	r := reader{buf: payload}
	var h RequestHeader
	h.Key = r.int16("RequestApiKey")
	h.Version = r.int16("RequestApiVersion")
	h.CorrelationID = r.int32("CorrelationId")
	h.ClientID = r.nullableString("ClientId", false)
	if r.ok() && flexible(h.Key, h.Version) {
		r.skipTags("header tags")
	}
	if !r.ok() {
		return h, r.fault("RequestHeader", 1)
	}
	h.Body = payload[r.pos:]
	return h, nil
}

// AppendRequestHeader appends a request header: v2 if flexible, else v1. A nil
// clientID is written as null. It panics if clientID exceeds 32767 bytes.
func AppendRequestHeader(dst []byte, key, version int16, correlationID int32, clientID []byte, flexible bool) []byte {
	dst = appendInt16(dst, key)
	dst = appendInt16(dst, version)
	dst = appendInt32(dst, correlationID)
	dst = appendNullableString(dst, clientID, false)
	if flexible {
		dst = append(dst, 0)
	}
	return dst
}

// AppendResponseHeader appends the header of a response to a request of that key
// and version (of which no rule depends on more than flexible): v1, with an empty
// section of tagged fields, if that version is flexible, else v0. ApiVersions
// always has v0, because its answer may go to a client that knows no version yet
// (KIP-511).
func AppendResponseHeader(dst []byte, key, _ int16, correlationID int32, flexible bool) []byte {
	dst = appendInt32(dst, correlationID)
	if flexible && key != KeyApiVersions {
		dst = append(dst, 0)
	}
	return dst
}

// ParseResponseHeader parses the header of a response (the frame without its
// length prefix) to a request of that key and returns the body behind it.
func ParseResponseHeader(payload []byte, key int16, flexible bool) (correlationID int32, body []byte, err error) {
	r := reader{buf: payload}
	correlationID = r.int32("CorrelationId")
	if flexible && key != KeyApiVersions {
		r.skipTags("header tags")
	}
	if !r.ok() {
		return correlationID, nil, r.fault("ResponseHeader", 0)
	}
	return correlationID, payload[r.pos:], nil
}
