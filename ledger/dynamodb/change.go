package dynamodb

import (
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// cell is what a transaction knows and makes of one item.
type cell struct {
	name  name
	was   item // as it was read; nil: there was none
	known bool // it was read, or is known to be as it was left
	is    item // as it is to be; nil: it goes
	put   bool // is holds
	check bool // not put, and the transaction stands only if it is as it was read
}

// change is one write of an item, on the condition that the item is as it was read.
type change struct{ *cell }

// versioned is the condition's value; nil: the item is not to be there.
func (c change) version() types.AttributeValue { return c.was[attrVersion] }

// statement is the change as a statement of PartiQL, which is answered by itself in a batch and costs what a put does.
// https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ql-reference.multiplestatements.batching.html
func (c change) statement(table string) types.BatchStatementRequest {
	if c.was == nil {
		return c.insert(table)
	}
	var b strings.Builder
	var values []types.AttributeValue
	if c.is == nil {
		fmt.Fprintf(&b, "DELETE FROM %q", table)
	} else {
		fmt.Fprintf(&b, "UPDATE %q", table)
		values = c.sets(&b)
	}
	fmt.Fprintf(&b, " WHERE %q=? AND %q=? AND %q=?", attrPlace, attrSort, attrVersion)
	return types.BatchStatementRequest{
		Statement: aws.String(b.String()), Parameters: append(values, blob(c.name.place), blob(c.name.sort), c.version()),
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
}

func (c change) insert(table string) types.BatchStatementRequest {
	names := attributes(c.is)
	values := make([]types.AttributeValue, len(names))
	for i, attr := range names {
		values[i] = c.is[attr]
	}
	return types.BatchStatementRequest{
		Statement:  aws.String(fmt.Sprintf("INSERT INTO %q VALUE {'%s':?}", table, strings.Join(names, "':?,'"))),
		Parameters: values,
	}
}

// sets writes what differs between what was and what is.
func (c change) sets(b *strings.Builder) (values []types.AttributeValue) {
	for _, attr := range attributes(c.is) {
		if !same(c.is[attr], c.was[attr]) {
			fmt.Fprintf(b, " SET %q=?", attr)
			values = append(values, c.is[attr])
		}
	}
	for _, attr := range attributes(c.was) {
		if _, stays := c.is[attr]; !stays {
			fmt.Fprintf(b, " REMOVE %q", attr)
		}
	}
	return values
}

// part is the change, or the check, as a part of a transaction.
func (c change) part(table string) types.TransactWriteItem {
	condition, values := aws.String("attribute_not_exists("+attrPlace+")"), item(nil)
	if c.was != nil {
		condition, values = aws.String(attrVersion+" = :v"), item{":v": c.version()}
	}
	switch {
	case !c.put:
		return types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{TableName: &table, Key: c.name.key(),
			ConditionExpression: condition, ExpressionAttributeValues: values}}
	case c.is == nil:
		return types.TransactWriteItem{Delete: &types.Delete{TableName: &table, Key: c.name.key(),
			ConditionExpression: condition, ExpressionAttributeValues: values}}
	}
	return types.TransactWriteItem{Put: &types.Put{TableName: &table, Item: c.is,
		ConditionExpression: condition, ExpressionAttributeValues: values}}
}

// changes are what the cells of one transaction write and check, in the order of their names.
func changes(cells map[name]*cell) (list []change, writes int) {
	for _, c := range cells {
		if c.put && (c.was != nil || c.is != nil) {
			writes++
			list = append(list, change{c})
		} else if c.check {
			list = append(list, change{c})
		}
	}
	slices.SortFunc(list, func(a, b change) int { return a.name.compare(b.name) })
	return list, writes
}
