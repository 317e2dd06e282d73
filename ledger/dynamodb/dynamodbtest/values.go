package dynamodbtest

import (
	"encoding/json"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// item is attributes by their names.
type item = map[string]types.AttributeValue

// wireItem is an item in the JSON of DynamoDB's protocol, in both directions.
type wireItem item

// UnmarshalJSON reads {"name": {"S": "text"}, …}.
func (w *wireItem) UnmarshalJSON(data []byte) error {
	var all map[string]wireValue
	if err := json.Unmarshal(data, &all); err != nil || all == nil {
		return err
	}
	*w = wireItem{}
	for name, value := range all {
		(*w)[name] = value.AttributeValue
	}
	return nil
}

// MarshalJSON writes what UnmarshalJSON reads.
func (w wireItem) MarshalJSON() ([]byte, error) {
	all := make(map[string]wireValue, len(w))
	for name, value := range w {
		all[name] = wireValue{value}
	}
	return json.Marshal(all)
}

// wireValue is one value of an item.
type wireValue struct{ types.AttributeValue }

// UnmarshalJSON reads {"S": "text"} and the like.
func (w *wireValue) UnmarshalJSON(data []byte) error {
	var v struct {
		S, N *string
		B    *[]byte
		BOOL *bool
		NULL *bool
		SS   []string
		NS   []string
		BS   [][]byte
		L    *[]wireValue
		M    *wireItem
	}
	if err := json.Unmarshal(data, &v); err != nil {
		return err
	}
	switch {
	case v.S != nil:
		w.AttributeValue = &types.AttributeValueMemberS{Value: *v.S}
	case v.N != nil:
		w.AttributeValue = &types.AttributeValueMemberN{Value: *v.N}
	case v.B != nil:
		w.AttributeValue = &types.AttributeValueMemberB{Value: *v.B}
	case v.BOOL != nil:
		w.AttributeValue = &types.AttributeValueMemberBOOL{Value: *v.BOOL}
	case v.NULL != nil:
		w.AttributeValue = &types.AttributeValueMemberNULL{Value: *v.NULL}
	case v.SS != nil:
		w.AttributeValue = &types.AttributeValueMemberSS{Value: v.SS}
	case v.NS != nil:
		w.AttributeValue = &types.AttributeValueMemberNS{Value: v.NS}
	case v.BS != nil:
		w.AttributeValue = &types.AttributeValueMemberBS{Value: v.BS}
	case v.L != nil:
		list := make([]types.AttributeValue, len(*v.L))
		for i, e := range *v.L {
			list[i] = e.AttributeValue
		}
		w.AttributeValue = &types.AttributeValueMemberL{Value: list}
	case v.M != nil:
		w.AttributeValue = &types.AttributeValueMemberM{Value: item(*v.M)}
	default:
		return fmt.Errorf("dynamodbtest: no attribute value: %s", data)
	}
	return nil
}

// MarshalJSON writes what UnmarshalJSON reads.
func (w wireValue) MarshalJSON() ([]byte, error) {
	of := func(kind string, value any) ([]byte, error) { return json.Marshal(map[string]any{kind: value}) }
	switch v := w.AttributeValue.(type) {
	case *types.AttributeValueMemberS:
		return of("S", v.Value)
	case *types.AttributeValueMemberN:
		return of("N", v.Value)
	case *types.AttributeValueMemberB:
		return of("B", v.Value)
	case *types.AttributeValueMemberBOOL:
		return of("BOOL", v.Value)
	case *types.AttributeValueMemberNULL:
		return of("NULL", v.Value)
	case *types.AttributeValueMemberSS:
		return of("SS", v.Value)
	case *types.AttributeValueMemberNS:
		return of("NS", v.Value)
	case *types.AttributeValueMemberBS:
		return of("BS", v.Value)
	case *types.AttributeValueMemberL:
		list := make([]wireValue, len(v.Value))
		for i, e := range v.Value {
			list[i] = wireValue{e}
		}
		return of("L", list)
	case *types.AttributeValueMemberM:
		return of("M", wireItem(v.Value))
	}
	return nil, fmt.Errorf("dynamodbtest: no attribute value: %T", w.AttributeValue)
}
