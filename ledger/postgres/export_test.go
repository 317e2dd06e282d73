package postgres

import (
	"fmt"
	"strconv"
	"strings"
)

// OwnerNumber is the number in the owner table behind an owner's name.
func OwnerNumber(name string) (int64, error) {
	digits, ok := strings.CutPrefix(name, "pg-")
	if !ok {
		return 0, fmt.Errorf("not an owner's name: %q", name)
	}
	return strconv.ParseInt(digits, 36, 64)
}
