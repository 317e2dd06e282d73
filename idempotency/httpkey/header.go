package httpkey

import (
	"errors"
	"fmt"
	"strings"
)

// parseKey returns the key of a header's values. By the draft it is a string of RFC 8941 (section 3.3.3): in quotes, printable ASCII,
// quotes and backslashes escaped. What does not begin with a quote is the key as it is, unless strict: as most clients send it.
func parseKey(values []string, strict bool) (string, error) {
	if len(values) > 1 {
		return "", fmt.Errorf("the header stands there %d times", len(values))
	}
	text := strings.Trim(values[0], " \t")
	switch {
	case strings.HasPrefix(text, `"`):
		return quoted(text)
	case strict:
		return "", errors.New("the key must be in quotes")
	case text == "":
		return "", errors.New("the key is empty")
	}
	return text, nil
}

// quoted reads a string with its quotes. Parameters behind it are not known.
func quoted(text string) (string, error) {
	var key strings.Builder
	for at := 1; at < len(text); at++ {
		switch c := text[at]; {
		case c == '"' && at == len(text)-1 && key.Len() > 0:
			return key.String(), nil
		case c == '"':
			return "", errors.New("the key must end with its quote, and not be empty")
		case c == '\\' && at+1 < len(text) && (text[at+1] == '"' || text[at+1] == '\\'):
			at++
			key.WriteByte(text[at])
		case c == '\\' || c < ' ' || c > '~':
			return "", fmt.Errorf("a key in quotes must be printable ASCII, with \\ before quotes and backslashes alone; byte %d is not", at)
		default:
			key.WriteByte(c)
		}
	}
	return "", errors.New("the key must end with a quote")
}
