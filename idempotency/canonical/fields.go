package canonical

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// Fields returns the canonical form of an object that has, for each JSON pointer (RFC 6901, "/customer/id"), the value that text has
// there. The order of pointers does not matter. What is not there has no member, so that it differs from null.
//
// An error is one of [JSON], of the whole text, or says which pointer is not one, or stands there twice. No pointer at all is an error,
// too: all texts would be one.
func Fields(text []byte, pointers ...string) ([]byte, error) {
	if len(pointers) == 0 {
		return nil, fmt.Errorf("canonical: Fields needs one pointer at least: with none, all texts would be one")
	}
	whole, err := JSON(text)
	if err != nil {
		return nil, err
	}
	object := jsontext.Value{'{'}
	for _, p := range pointers {
		if !jsontext.Pointer(p).IsValid() {
			return nil, fmt.Errorf("canonical: %q is no JSON pointer (RFC 6901: empty, or each part behind a slash)", p)
		}
		v := at(whole, jsontext.Pointer(p))
		if v == nil {
			continue
		}
		if len(object) > 1 {
			object = append(object, ',')
		}
		if object, err = jsontext.AppendQuote(object, p); err != nil {
			return nil, fmt.Errorf("canonical: the pointer %q: %w", p, err)
		}
		object = append(append(object, ':'), v...)
	}
	object = append(object, '}')
	if err := object.Canonicalize(); err != nil {
		return nil, fmt.Errorf("canonical: the fields: %w", err)
	}
	return object, nil
}

// at returns the value at a pointer of a text that is canonical; nil: there is none.
func at(v jsontext.Value, p jsontext.Pointer) jsontext.Value {
	for name := range p.Tokens() {
		if v = child(v, name); v == nil {
			return nil
		}
	}
	return v
}

// child returns an object's member or an array's element; nil: there is none.
func child(v jsontext.Value, name string) jsontext.Value {
	d := jsontext.NewDecoder(bytes.NewBuffer(v))
	kind := v.Kind()
	if kind != '{' && kind != '[' {
		return nil
	}
	_, err := d.ReadToken()
	for n := 0; err == nil && d.StackDepth() == 1 && d.PeekKind() > 0; n++ {
		key := jsontext.String(strconv.Itoa(n))
		if kind == '{' {
			if key, err = d.ReadToken(); err != nil {
				return nil
			}
		}
		if key.String() == name {
			value, _ := d.ReadValue()
			return value
		}
		err = d.SkipValue()
	}
	return nil
}
