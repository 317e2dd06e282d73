package limits

import (
	"strings"
	"testing"
)

func TestWithin(t *testing.T) {
	if !Within(0) || !Within(5) || Within(-1) || Within(11) {
		t.Error("bounds")
	}
}

func TestDouble(t *testing.T) {
	if n, err := Double(2); n != 4 || err != nil {
		t.Error(n, err)
	}
}

func TestStatement(t *testing.T) {
	if strings.Contains(Statement(), "(d") || strings.Contains(Statement(), "5 OR true") {
		t.Error("the last condition is gone")
	}
}
