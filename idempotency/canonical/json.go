package canonical

import (
	"bytes"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// JSON returns the canonical form of a JSON text (RFC 8785): no white space, members sorted by their names' UTF-16 code units, numbers
// as ECMAScript prints doubles, strings with the fewest escapes. text is not changed.
//
// An error says what is wrong and where: text is not I-JSON (RFC 7493: no UTF-8, a lone surrogate, a name twice in one object), is nested
// deeper than 10,000 levels, or has a number that would become another one, an [*InexactError].
func JSON(text []byte) ([]byte, error) {
	v := jsontext.Value(bytes.Clone(text))
	if err := v.Canonicalize(); err != nil {
		return nil, fmt.Errorf("canonical: %w", err)
	}
	for d := jsontext.NewDecoder(bytes.NewBuffer(text)); d.PeekKind() > 0; {
		t, err := d.ReadToken()
		if err != nil {
			return nil, fmt.Errorf("canonical: %w", err)
		}
		if t.Kind() == '0' && !survives(t.String()) {
			return nil, &InexactError{Number: t.String(), Pointer: string(d.StackPointer())}
		}
	}
	return v, nil
}
