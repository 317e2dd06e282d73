package offsets_test

import (
	"fmt"

	"github.com/ackledger/ackledger/internal/offsets"
)

func Example() {
	t := offsets.New(100, -1)
	a, _ := t.Add(100, 7)
	b, _ := t.Add(101, 7)
	c, _ := t.Add(105, 8) // 102 to 104 were compacted away

	t.Finish(b)
	t.Finish(c)
	fmt.Println(t.Position()) // 100 holds it
	t.Finish(a)
	fmt.Println(t.Position())
	fmt.Println(t.Finish(a), t.Span())
	// Output:
	// 100 -1
	// 106 8
	// false 0
}
