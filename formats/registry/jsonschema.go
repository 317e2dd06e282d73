package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/twmb/franz-go/pkg/sr"

	"github.com/ackledger/ackledger/consumer"
)

// base is where schemas are, as far as their references are concerned: nothing is ever fetched from there.
const base = "registry:///"

// compileJSON compiles a schema with those that it refers to by their names. Nothing else is loaded: no file, and no address.
func compileJSON(all []text) (s *jsonschema.Schema, title string, err error) {
	c := jsonschema.NewCompiler()
	c.UseLoader(jsonschema.SchemeURLLoader{})
	c.DefaultDraft(jsonschema.Draft7) // Confluent's serializers take this one where a schema does not say
	for _, t := range all {
		doc, err := jsonschema.UnmarshalJSON(strings.NewReader(t.Schema.Schema))
		if err != nil {
			return nil, "", err
		}
		name := t.name
		if name == "" {
			name = "schema.json"
			if object, ok := doc.(map[string]any); ok {
				title, _ = object["title"].(string)
			}
		}
		if !strings.Contains(name, "://") {
			name = base + name
		}
		if err := c.AddResource(name, doc); err != nil {
			return nil, "", err
		}
	}
	s, err = c.Compile(base + "schema.json")
	return s, title, err
}

// JSON returns a handler for messages that were written by a JSON Schema of r. A body is checked by that schema, and then decoded into a
// T: by encoding/json's rules, but names of fields must be equal in case, and no object may have one twice, so that T has what was
// checked. Numbers have at most 400 digits before or behind the point, and 1,000 bytes.
//
// It is nil without r or f, which workers refuse. f may be called concurrently.
func JSON[T any](r *Registry, f func(context.Context, T) error) consumer.Handler {
	if r == nil || f == nil {
		return nil
	}
	return consumer.HandlerFunc(func(ctx context.Context, m *consumer.Message) error {
		var v T
		if err := r.decodeJSON(ctx, m, &v); err != nil {
			return of(m, err)
		}
		return f(ctx, v)
	})
}

func (r *Registry) decodeJSON(ctx context.Context, m *consumer.Message, v any) error {
	id, e, rest, err := r.open(ctx, m, sr.TypeJSON)
	if err != nil {
		return err
	}
	if err := validate(e.compiled.(*jsonschema.Schema), rest); err != nil {
		return consumer.Terminal(fmt.Errorf("registry: schema %d: %w", id, err))
	}
	options := jsonv2.JoinOptions(jsonv1.DefaultOptionsV1(), jsonv2.MatchCaseInsensitiveNames(false), jsonv1.ReportErrorsWithLegacySemantics(false))
	if err := jsonv2.Unmarshal(rest, v, options); err != nil {
		where := fmt.Sprintf("%T", err)
		if s, ok := errors.AsType[*jsonv2.SemanticError](err); ok {
			where = fmt.Sprintf("byte %d does not fit Go type %v", s.ByteOffset, s.GoType)
		}
		return consumer.Terminal(fmt.Errorf("registry: schema %d: JSON of %d bytes: %s", id, len(rest), where))
	}
	return nil
}

// validate checks a body. Its errors name places in the schema, and quote nothing of the body.
func validate(s *jsonschema.Schema, body []byte) error {
	var raw json.RawMessage
	if err := consumer.DecodeJSON(body, &raw); err != nil { // bounds its depth
		return err
	}
	if err := unambiguous(body); err != nil {
		return err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("JSON of %d bytes cannot be read (%T)", len(body), err)
	}
	err = s.Validate(doc)
	if err == nil {
		return nil
	}
	invalid, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return fmt.Errorf("the body cannot be checked (%T)", err)
	}
	for len(invalid.Causes) > 0 {
		invalid = invalid.Causes[0]
	}
	return fmt.Errorf("the body does not fit %s, keyword %s", strings.TrimPrefix(invalid.SchemaURL, base), strings.Join(invalid.ErrorKind.KeywordPath(), "/"))
}

// Bounds of a number. Checking one takes as long as it has digits when it is written out.
const (
	maxNumber   = 1000 // bytes
	maxExponent = 400  // beyond what a float64 holds
)

// unambiguous refuses names that an object has twice, and numbers that take long to check.
func unambiguous(body []byte) error {
	d := jsontext.NewDecoder(bytes.NewReader(body))
	for {
		token, err := d.ReadToken()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, jsontext.ErrDuplicateName):
			return fmt.Errorf("an object has a name twice, at byte %d", d.InputOffset())
		case err != nil:
			return fmt.Errorf("JSON at byte %d cannot be read: must be UTF-8", d.InputOffset())
		}
		if token.Kind() == '0' {
			if err := boundedNumber(token.String(), d.InputOffset()); err != nil {
				return err
			}
		}
	}
}

func boundedNumber(number string, at int64) error {
	if len(number) > maxNumber {
		return fmt.Errorf("the number before byte %d must have at most %d bytes, has %d", at, maxNumber, len(number))
	}
	_, exponent, ok := strings.Cut(strings.ToLower(number), "e")
	if !ok {
		return nil
	}
	if n, err := strconv.Atoi(exponent); err != nil || n > maxExponent || n < -maxExponent {
		return fmt.Errorf("the number before byte %d must have an exponent of -%d to %d", at, maxExponent, maxExponent)
	}
	return nil
}
