package dump

import (
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kbin"

	"github.com/posthouse/posthouse/storage/record"
)

// kind is how a field of a coordinator's record is encoded.
type kind int

const (
	kindInt8 kind = iota
	kindInt16
	kindInt32
	kindInt64
	kindString
	kindNullableString
	kindBytes
	kindUUID
	kindInt32s
	kindStrings
	kindArray  // of structs
	kindStruct // that may be null
)

// field is a field of a record, in the order of Kafka's message definitions.
type field struct {
	name string
	kind kind
	sub  []field
}

// schema is a message: plain fields, and for flexible ones tagged fields too.
type schema struct {
	fields   []field
	flexible bool
	tags     map[string]map[uint32]field // by the name of the struct; "" is the message
}

// errShort says that a message ends before its last field.
var errShort = errors.New("it ends too early")

// arrayMax bounds what a damaged length can make us build.
const arrayMax = 1 << 20

// decode reads a message into what encoding/json prints in order.
func (s *schema) decode(data []byte) (object, error) {
	r := &kbin.Reader{Src: data}
	out, err := s.structure(r, "", s.fields)
	if err != nil {
		return nil, err
	}
	if len(r.Src) > 0 {
		return nil, fmt.Errorf("%d bytes too many", len(r.Src))
	}
	return out, nil
}

func (s *schema) structure(r *kbin.Reader, name string, fields []field) (object, error) {
	out := object{}
	for _, f := range fields {
		value, err := s.value(r, f)
		if err == nil && !r.Ok() {
			err = errShort
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
		out = append(out, member{f.name, value})
	}
	if !s.flexible {
		return out, nil
	}
	for n := r.Uvarint(); n > 0; n-- {
		tag := r.Uvarint()
		span := r.Span(int(r.Uvarint()))
		if !r.Ok() {
			return nil, errShort
		}
		f, known := s.tags[name][tag]
		if !known {
			out = append(out, member{fmt.Sprintf("tag%d", tag), hex.EncodeToString(span)})
			continue
		}
		value, err := s.value(&kbin.Reader{Src: span}, f)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
		out = append(out, member{f.name, value})
	}
	if !r.Ok() {
		return nil, errShort
	}
	return out, nil
}

func (s *schema) value(r *kbin.Reader, f field) (any, error) {
	switch f.kind {
	case kindInt8:
		return r.Int8(), nil
	case kindInt16:
		return r.Int16(), nil
	case kindInt32:
		return r.Int32(), nil
	case kindInt64:
		return r.Int64(), nil
	case kindUUID:
		return record.TopicID(r.Uuid()).String(), nil
	case kindString:
		if s.flexible {
			return r.CompactString(), nil
		}
		return r.String(), nil
	case kindNullableString:
		text := r.NullableString
		if s.flexible {
			text = r.CompactNullableString
		}
		if v := text(); v != nil {
			return *v, nil
		}
		return nil, nil
	case kindBytes:
		if s.flexible {
			return hex.EncodeToString(r.CompactBytes()), nil
		}
		return hex.EncodeToString(r.Bytes()), nil
	case kindStruct:
		if r.Int8() < 0 {
			return nil, nil
		}
		return s.structure(r, f.name, f.sub)
	}
	return s.array(r, f)
}

func (s *schema) array(r *kbin.Reader, f field) (any, error) {
	length := r.ArrayLen
	if s.flexible {
		length = r.CompactArrayLen
	}
	n := length()
	if n > arrayMax || int(n) > len(r.Src) {
		return nil, errShort
	}
	list := []any{}
	for ; n > 0; n-- {
		var one any
		var err error
		switch f.kind {
		case kindInt32s:
			one = r.Int32()
		case kindStrings:
			one, err = s.value(r, field{kind: kindString})
		default:
			one, err = s.structure(r, f.name, f.sub)
		}
		if err == nil && !r.Ok() {
			err = errShort
		}
		if err != nil {
			return nil, err
		}
		list = append(list, one)
	}
	return list, nil
}
