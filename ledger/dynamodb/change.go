package dynamodb

import (
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/ackledger/ackledger/ledger/driver/items"
)

// statement is a change as a statement of PartiQL, which is answered by itself in a batch and costs what a put does.
// https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ql-reference.multiplestatements.batching.html
func (t *table) statement(c *items.Change) types.BatchStatementRequest {
	var b strings.Builder
	var values []types.AttributeValue
	if c.Was == nil {
		names := items.Attributes(c.Is)
		for _, attr := range names {
			values = append(values, value(c.Is[attr]))
		}
		fmt.Fprintf(&b, "INSERT INTO %q VALUE {'%s':?}", t.name, strings.Join(names, "':?,'"))
		return types.BatchStatementRequest{Statement: aws.String(b.String()), Parameters: values}
	}
	if c.Is == nil {
		fmt.Fprintf(&b, "DELETE FROM %q", t.name)
	} else {
		fmt.Fprintf(&b, "UPDATE %q", t.name)
		set, gone := c.Differs()
		for _, attr := range set {
			fmt.Fprintf(&b, " SET %q=?", attr)
			values = append(values, value(c.Is[attr]))
		}
		for _, attr := range gone {
			fmt.Fprintf(&b, " REMOVE %q", attr)
		}
	}
	fmt.Fprintf(&b, " WHERE %q=? AND %q=? AND %q=?", items.Place, items.Sort, items.Version)
	return types.BatchStatementRequest{
		Statement: aws.String(b.String()), Parameters: append(values, blob(c.Name.Place), blob(c.Name.Sort), value(c.Was[items.Version])),
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
}

// part is a change, or a check, as a part of a transaction.
func (t *table) part(c *items.Change) types.TransactWriteItem {
	condition, values := aws.String("attribute_not_exists("+items.Place+")"), item(nil)
	if c.Was != nil {
		condition, values = aws.String(items.Version+" = :v"), item{":v": value(c.Was[items.Version])}
	}
	switch {
	case c.Check:
		return types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{TableName: &t.name, Key: keyOf(c.Name),
			ConditionExpression: condition, ExpressionAttributeValues: values}}
	case c.Is == nil:
		return types.TransactWriteItem{Delete: &types.Delete{TableName: &t.name, Key: keyOf(c.Name),
			ConditionExpression: condition, ExpressionAttributeValues: values}}
	}
	return types.TransactWriteItem{Put: &types.Put{TableName: &t.name, Item: toService(c.Is),
		ConditionExpression: condition, ExpressionAttributeValues: values}}
}
