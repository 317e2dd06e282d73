package operate_test

import (
	"fmt"
	"time"

	"github.com/ackledger/ackledger/internal/operate"
)

func Example() {
	fmt.Println(operate.Count(1234567), operate.Short(90*time.Second), operate.Size(1536), operate.Text("\x1b[2J"))
	fmt.Print(operate.Difference([]byte(`{"sku":17}`), []byte(`{"sku":18}`)))
	// Output:
	// 1,234,567 1m30s 1.5 KiB "\x1b[2J"
	//  {
	// -  "sku": 17
	// +  "sku": 18
	//  }
}
