package canonical

import (
	"fmt"
	"strconv"
	"strings"
)

// InexactError is of a number that a double does not hold: its canonical form would be that of another number. RFC 8785 (appendix D)
// has such numbers sent as strings.
type InexactError struct {
	Number  string // as it stands in the text
	Pointer string // where (RFC 6901)
}

// Error names the number, at most 40 bytes of it, and its place.
func (e *InexactError) Error() string {
	number := e.Number
	if len(number) > 40 {
		number = number[:40] + "…"
	}
	return fmt.Sprintf("canonical: a double does not hold the number %s at %q: send it as a string (RFC 8785, appendix D)", number, e.Pointer)
}

// mostDigits is how many digits a program prints that prints doubles.
const mostDigits = 17

// survives says whether a number means the same after it was a double. A whole number must be that very number, and so must one of
// more digits than doubles are printed with. Other fractions become the double next to them, as RFC 8785 has it. -0 is 0.
func survives(number string) bool {
	f, err := strconv.ParseFloat(number, 64)
	if err != nil { // it is out of range
		return false
	}
	digits, exponent := decimal(number)
	if whole := exponent >= len(digits)-1; !whole && len(digits) <= mostDigits && f != 0 {
		return true
	}
	is, at := decimal(strconv.FormatFloat(f, 'e', -1, 64))
	return digits == is && exponent == at
}

// decimal returns a number's digits without zeros at either end, and the power of ten of the first of them. ParseFloat has taken the
// number, so its exponent is far from the bounds of an int, or its digits are zeros.
func decimal(number string) (digits string, exponent int) {
	mantissa, power, _ := strings.Cut(strings.ToLower(strings.TrimPrefix(number, "-")), "e")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	all := whole + fraction
	digits = strings.TrimLeft(all, "0")
	at := len(whole) - 1 - (len(all) - len(digits))
	if digits = strings.TrimRight(digits, "0"); digits == "" {
		return "", 0
	}
	exponent, _ = strconv.Atoi(power) // none is 0; one out of bounds is capped, and equals that of no double
	return digits, exponent + at
}
