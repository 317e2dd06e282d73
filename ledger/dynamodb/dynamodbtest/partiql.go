package dynamodbtest

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// statement is what the counting wants to know of a PartiQL statement. The server judges whether it is one.
type statement struct {
	verb  string // INSERT, UPDATE, DELETE or SELECT
	table string
	// values are the item of an INSERT, and otherwise what the WHERE clause says is equal to a value: the key, and more.
	values item
}

// token is a word, a number, a name in "quotes", a text in 'quotes', or a sign.
var token = regexp.MustCompile(`"(?:[^"]|"")*"|'(?:[^']|'')*'|<<|>>|<=|>=|<>|[-+]?[0-9][0-9.]*(?:[eE][-+]?[0-9]+)?|\w+|\S`)

var number = regexp.MustCompile(`^[-+]?[0-9]`)

// reader goes through the tokens of a statement.
type reader struct {
	tokens     []string
	parameters []wireValue
	marks      int // question marks that were passed
}

func parseStatement(text string, parameters []wireValue) (*statement, error) {
	r := &reader{tokens: token.FindAllString(text, -1), parameters: parameters}
	s := &statement{verb: strings.ToUpper(r.next()), values: item{}}
	switch s.verb {
	case "INSERT":
		r.skipPast("INTO")
	case "DELETE", "SELECT":
		r.skipPast("FROM")
	case "UPDATE":
	default:
		return nil, fmt.Errorf("dynamodbtest: no statement: %s", text)
	}
	s.table = unquote(r.next())
	if s.verb == "INSERT" {
		r.skipPast("VALUE")
		value, err := r.value()
		if err != nil {
			return nil, err
		}
		object, ok := value.(*types.AttributeValueMemberM)
		if !ok {
			return nil, fmt.Errorf("dynamodbtest: INSERT without an item: %s", text)
		}
		s.values = object.Value
		return s, nil
	}
	r.skipPast("WHERE")
	for len(r.tokens) > 2 {
		if r.tokens[1] != "=" {
			r.next()
			continue
		}
		name := unquote(r.next())
		r.next()
		value, err := r.value()
		if err == nil { // otherwise an expression, which is no key's
			s.values[name] = value
		}
	}
	return s, nil
}

// next takes a token; at the end it is empty.
func (r *reader) next() string {
	if len(r.tokens) == 0 {
		return ""
	}
	t := r.tokens[0]
	r.tokens = r.tokens[1:]
	if t == "?" {
		r.marks++
	}
	return t
}

func (r *reader) skipPast(word string) {
	for len(r.tokens) > 0 && !strings.EqualFold(r.next(), word) {
		continue
	}
}

// value takes a literal or a parameter.
func (r *reader) value() (types.AttributeValue, error) {
	t := r.next()
	switch {
	case t == "?":
		if r.marks > len(r.parameters) {
			return nil, fmt.Errorf("dynamodbtest: a statement has no parameter %d", r.marks)
		}
		return r.parameters[r.marks-1].AttributeValue, nil
	case strings.HasPrefix(t, "'"):
		return &types.AttributeValueMemberS{Value: unquote(t)}, nil
	case strings.EqualFold(t, "true"), strings.EqualFold(t, "false"):
		return &types.AttributeValueMemberBOOL{Value: strings.EqualFold(t, "true")}, nil
	case strings.EqualFold(t, "null"):
		return &types.AttributeValueMemberNULL{Value: true}, nil
	case t == "{":
		return r.object()
	case t == "[":
		list, err := r.list("]")
		return &types.AttributeValueMemberL{Value: list}, err
	case t == "<<":
		list, err := r.list(">>")
		return set(list), err
	case number.MatchString(t):
		return &types.AttributeValueMemberN{Value: t}, nil
	}
	return nil, fmt.Errorf("dynamodbtest: a statement has %q where a value should be", t)
}

func (r *reader) object() (types.AttributeValue, error) {
	all := item{}
	for len(r.tokens) > 0 {
		name := r.next()
		switch name {
		case "}":
			return &types.AttributeValueMemberM{Value: all}, nil
		case ",":
			continue
		}
		r.next() // the colon
		value, err := r.value()
		if err != nil {
			return nil, err
		}
		all[unquote(name)] = value
	}
	return nil, fmt.Errorf("dynamodbtest: a statement ends within an item")
}

func (r *reader) list(end string) (all []types.AttributeValue, err error) {
	for len(r.tokens) > 0 {
		switch r.tokens[0] {
		case end:
			r.next()
			return all, nil
		case ",":
			r.next()
			continue
		}
		value, err := r.value()
		if err != nil {
			return nil, err
		}
		all = append(all, value)
	}
	return nil, fmt.Errorf("dynamodbtest: a statement ends within a list")
}

// set is a set of texts or of numbers, by its elements.
func set(list []types.AttributeValue) types.AttributeValue {
	var texts, numbers []string
	for _, e := range list {
		switch v := e.(type) {
		case *types.AttributeValueMemberS:
			texts = append(texts, v.Value)
		case *types.AttributeValueMemberN:
			numbers = append(numbers, v.Value)
		}
	}
	if len(numbers) > 0 {
		return &types.AttributeValueMemberNS{Value: numbers}
	}
	return &types.AttributeValueMemberSS{Value: texts}
}

// unquote takes off the quotes of a name or a text, if there are any.
func unquote(t string) string {
	if len(t) < 2 || t[0] != '"' && t[0] != '\'' {
		return t
	}
	quote := t[:1]
	return strings.ReplaceAll(t[1:len(t)-1], quote+quote, quote)
}

// joinSets makes one clause of an UPDATE's SETs, and one of its REMOVEs, where they follow each other.
func joinSets(text string) string {
	var joined strings.Builder
	end, clause := 0, ""
	for _, at := range token.FindAllStringIndex(text, -1) {
		word := strings.ToUpper(text[at[0]:at[1]])
		joined.WriteString(text[end:at[0]])
		switch end = at[1]; {
		case word == "WHERE":
			return joined.String() + text[at[0]:]
		case word != "SET" && word != "REMOVE":
			joined.WriteString(text[at[0]:end])
		case word == clause:
			joined.WriteString(",")
		default:
			clause = word
			joined.WriteString(word)
		}
	}
	return joined.String() + text[end:]
}
