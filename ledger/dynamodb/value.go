package dynamodb

import (
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/ackledger/ackledger/ledger/driver/items"
)

// item is an item as the service writes it.
type item = map[string]types.AttributeValue

func toService(i items.Item) item {
	out := make(item, len(i))
	for attr, v := range i {
		out[attr] = value(v)
	}
	return out
}

func value(v items.Value) types.AttributeValue {
	switch v.Kind {
	case items.KindBytes:
		return &types.AttributeValueMemberB{Value: v.Bytes}
	case items.KindNumber:
		return &types.AttributeValueMemberN{Value: strconv.FormatInt(v.Number, 10)}
	}
	return &types.AttributeValueMemberBOOL{Value: true}
}

// fromService reads an item of the ledger's; nil: there is none. What the ledger does not write is left out.
func fromService(i item) items.Item {
	if i == nil {
		return nil
	}
	out := make(items.Item, len(i))
	for attr, v := range i {
		switch v := v.(type) {
		case *types.AttributeValueMemberB:
			out[attr] = items.Value{Kind: items.KindBytes, Bytes: v.Value}
		case *types.AttributeValueMemberN:
			if n, err := strconv.ParseInt(v.Value, 10, 64); err == nil {
				out[attr] = items.Number(n)
			}
		case *types.AttributeValueMemberBOOL:
			out[attr] = items.True
		}
	}
	return out
}

// blob is a value of bytes.
func blob(s string) types.AttributeValue { return &types.AttributeValueMemberB{Value: []byte(s)} }

// keyOf is the primary key of an item.
func keyOf(n items.Name) item { return item{items.Place: blob(n.Place), items.Sort: blob(n.Sort)} }
