package operate

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Count writes a number with a comma at every thousand.
func Count(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Short writes a duration in its largest two units.
func Short(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	case d < day:
		s := d.Round(time.Second).String()
		if strings.HasSuffix(s, "m0s") {
			s = strings.TrimSuffix(s, "0s")
		}
		if strings.HasSuffix(s, "h0m") {
			s = strings.TrimSuffix(s, "0m")
		}
		return s
	}
	s := fmt.Sprintf("%dd", d/day)
	if h := d % day / time.Hour; h > 0 {
		s += fmt.Sprintf("%dh", h)
	}
	return s
}

// Size writes a number of bytes in binary units.
func Size(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	v, i := float64(n), 0
	for v >= 1024 && i < len(units)-1 {
		v, i = v/1024, i+1
	}
	if i == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", v, units[i])
}

// Text makes a name printable: names are bytes, and could move a terminal's cursor, or turn a page's text around.
func Text(s string) string {
	if utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return s
	}
	return strconv.Quote(s)
}

// Unprintable could move a terminal's cursor, or turn text around: all that is not printable, but for line breaks and tabs.
func Unprintable(r rune) bool { return r != '\n' && r != '\t' && !strconv.IsPrint(r) }

// Safe is text of several lines with U+FFFD in the place of what is [Unprintable].
func Safe(s string) string {
	return strings.Map(func(r rune) rune {
		if Unprintable(r) {
			return utf8.RuneError
		}
		return r
	}, s)
}
