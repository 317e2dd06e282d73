package dynamodbtest

import (
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// ItemSize is the size of an item in bytes by which DynamoDB counts capacity and its limit of 400 KB: the names and the values of its
// attributes (developer guide, "DynamoDB item sizes and formats"). The guide gives a number's size as approximate, and says nothing of
// sets: they are counted as the sum of their elements. The overhead of 100 bytes an item is for the price of storage alone.
func ItemSize(item map[string]types.AttributeValue) int {
	size := 0
	for name, value := range item {
		size += len(name) + valueSize(value)
	}
	return size
}

const (
	nested  = 3 // bytes of a list or a map beside its elements
	element = 1 // bytes of an element beside what it holds
)

func valueSize(value types.AttributeValue) int {
	size := 0
	switch v := value.(type) {
	case *types.AttributeValueMemberS:
		return len(v.Value)
	case *types.AttributeValueMemberN:
		return numberSize(v.Value)
	case *types.AttributeValueMemberB:
		return len(v.Value)
	case *types.AttributeValueMemberBOOL, *types.AttributeValueMemberNULL:
		return 1
	case *types.AttributeValueMemberSS:
		for _, s := range v.Value {
			size += len(s)
		}
	case *types.AttributeValueMemberNS:
		for _, n := range v.Value {
			size += numberSize(n)
		}
	case *types.AttributeValueMemberBS:
		for _, b := range v.Value {
			size += len(b)
		}
	case *types.AttributeValueMemberL:
		size = nested
		for _, e := range v.Value {
			size += element + valueSize(e)
		}
	case *types.AttributeValueMemberM:
		size = nested + ItemSize(v.Value) + element*len(v.Value)
	}
	return size
}

// numberSize is a byte for two significant digits, and one more.
func numberSize(number string) int {
	mantissa := strings.TrimLeft(number, "+-")
	if e := strings.IndexAny(mantissa, "eE"); e >= 0 {
		mantissa = mantissa[:e]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := len(strings.Trim(whole+fraction, "0"))
	return (digits+1)/2 + 1
}
