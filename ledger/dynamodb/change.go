package dynamodb

import (
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/ackledger/ackledger/ledger/driver/items"
)

// statement is a change as a statement of PartiQL, which is answered by itself in a batch and costs what a put does.
// https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ql-reference.multiplestatements.batching.html
func (t *table) statement(c *items.Change) types.BatchStatementRequest {
	if c.Was == nil {
		names := items.Attributes(c.Is)
		values := make([]types.AttributeValue, len(names))
		for i, attr := range names {
			values[i] = value(c.Is[attr])
		}
		return types.BatchStatementRequest{Parameters: values,
			Statement: aws.String(`INSERT INTO "` + t.name + `" VALUE {'` + strings.Join(names, "':?,'") + `':?}`)}
	}
	text, set, gone := `DELETE FROM "`+t.name+`"`, []string(nil), []string(nil)
	if c.Is != nil {
		text = `UPDATE "` + t.name + `"`
		set, gone = c.Differs()
	}
	values := make([]types.AttributeValue, 0, len(set)+3)
	for _, attr := range set {
		values = append(values, value(c.Is[attr]))
	}
	values = append(values, blob(c.Name.Place), blob(c.Name.Sort), value(c.Was[items.Version]))
	return types.BatchStatementRequest{
		Statement: aws.String(text + clauses(` SET "`, set, `"=?`) + clauses(` REMOVE "`, gone, `"`) + isStill), Parameters: values,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
}

// isStill is the condition that an item is as it was read.
const isStill = ` WHERE "` + items.Place + `"=? AND "` + items.Sort + `"=? AND "` + items.Version + `"=?`

// clauses are one clause for each attribute.
func clauses(begin string, attrs []string, end string) string {
	if len(attrs) == 0 {
		return ""
	}
	return begin + strings.Join(attrs, end+begin) + end
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
