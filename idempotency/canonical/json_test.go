package canonical_test

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/ackledger/ackledger/idempotency/canonical"
)

// The samples of RFC 8785, appendix B: doubles by their bits.
func TestNumbersOfTheRFC(t *testing.T) {
	t.Parallel()
	for bits, want := range map[uint64]string{
		0x0000000000000000: "0", 0x8000000000000000: "0", 0x0000000000000001: "5e-324", 0x8000000000000001: "-5e-324",
		0x7fefffffffffffff: "1.7976931348623157e+308", 0xffefffffffffffff: "-1.7976931348623157e+308",
		0x4340000000000000: "9007199254740992", 0xc340000000000000: "-9007199254740992", 0x4430000000000000: "295147905179352830000",
		0x44b52d02c7e14af5: "9.999999999999997e+22", 0x44b52d02c7e14af6: "1e+23", 0x44b52d02c7e14af7: "1.0000000000000001e+23",
		0x444b1ae4d6e2ef4e: "999999999999999700000", 0x444b1ae4d6e2ef4f: "999999999999999900000", 0x444b1ae4d6e2ef50: "1e+21",
		0x3eb0c6f7a0b5ed8c: "9.999999999999997e-7", 0x3eb0c6f7a0b5ed8d: "0.000001", 0x41b3de4355555553: "333333333.3333332",
		0x41b3de4355555554: "333333333.33333325", 0x41b3de4355555555: "333333333.3333333", 0x41b3de4355555556: "333333333.3333334",
		0x41b3de4355555557: "333333333.33333343", 0xbecbf647612f3696: "-0.0000033333333333333333", 0x43143ff3c1cb0959: "1424953923781206.2",
	} {
		for _, text := range []string{want, strconv.FormatFloat(math.Float64frombits(bits), 'e', -1, 64)} {
			if got, err := canonical.JSON([]byte(text)); err != nil || string(got) != want {
				t.Errorf("%s becomes %s, %v; want %s", text, got, err, want)
			}
		}
	}
}

// The samples of RFC 8785, sections 3.2.2 and 3.2.3, and what RFC 7493 demands.
func TestTextsOfTheRFC(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{
			"numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
			"string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
			"literals": [null, true, false]
		}`: `{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}`,
		`{"\u20ac": "Euro Sign", "\r": "Carriage Return", "\ufb33": "Hebrew Letter Dalet With Dagesh", "1": "One",
			"\ud83d\ude00": "Emoji: Grinning Face", "\u0080": "Control", "\u00f6": "Latin Small Letter O With Diaeresis"}`: `{"\r":"Carriage Return","1":"One","` +
			"\u0080" + `":"Control","ö":"Latin Small Letter O With Diaeresis","€":"Euro Sign","😀":"Emoji: Grinning Face","` + "\ufb33" +
			`":"Hebrew Letter Dalet With Dagesh"}`,
		" [ ] ": "[]", `{"b":{"d":1,"c":-0},"a":[3,2]}`: `{"a":[3,2],"b":{"c":0,"d":1}}`, `"x"`: `"x"`, "-0.0e5": "0",
	} {
		got, err := canonical.JSON([]byte(text))
		if err != nil || string(got) != want {
			t.Errorf("%s\nbecomes %s, %v\nwant    %s", text, got, err, want)
		}
		if again, err := canonical.JSON(got); err != nil || string(again) != string(got) {
			t.Errorf("%s becomes %s, %v", got, again, err)
		}
	}
}

func TestWhatIsNoJSON(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", " ", "{", `{"a":1,"a":1}`, `{"a":1,"\u0061":1}`, `"` + "\xff" + `"`, `"\ud800"`, "1 2", "01", "NaN", "+1", "1.", "[1,]",
		strings.Repeat("[", 10_001) + strings.Repeat("]", 10_001),
	} {
		if got, err := canonical.JSON([]byte(text)); err == nil || !strings.HasPrefix(err.Error(), "canonical: ") {
			t.Errorf("%.40s becomes %.40s, %v", text, got, err)
		}
	}
}

// Amounts and ids that differ are never taken for one: what a double does not hold is refused.
func TestWhatADoubleDoesNotHold(t *testing.T) {
	t.Parallel()
	for number, holds := range map[string]bool{
		"9007199254740993": false, "9007199254740992": true, "-9007199254740993": false, "9007199254740993.0": false, "9007199254740993e0": false,
		"90071992547409930e-1": false, "900719925474099200": true, "1e400": false, "-1e400": false, "1e-400": false, "0e-400": true, "0.000": true,
		"1e99999999999999999999": false, "0e99999999999999999999": true, "0.1": true, "0.10000000000000001": true, "0.1000000000000000055": false,
		"12345678901234567": false, "12345678901234568": true, "123456789012345.67": true, "1000000000000000000000000": true,
		"-0": true, "5e-324": true, "2e-324": false, "1." + strings.Repeat("0", 400): true, "1." + strings.Repeat("0", 400) + "1": false,
	} {
		got, err := canonical.JSON([]byte(`{"a":[` + number + `]}`))
		inexact, is := errors.AsType[*canonical.InexactError](err)
		if holds != (err == nil) || !holds && (!is || inexact.Pointer != "/a/0" || inexact.Number != number || len(err.Error()) > 200) {
			t.Errorf("%s becomes %s, %v", number, got, err)
		}
	}
}

// Texts of one meaning have one form, and those of two have two.
func FuzzJSON(f *testing.F) {
	for _, s := range []string{`{"a":1}`, `[1e3,"\u00e9"]`, "9007199254740993", `{"":{"b":[],"a":-0.0}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		was := string(text)
		got, err := canonical.JSON(text)
		if string(text) != was {
			t.Fatalf("%q has become %q", was, text)
		}
		if err != nil {
			return
		}
		if again, err := canonical.JSON(got); err != nil || string(again) != string(got) {
			t.Errorf("%q becomes %q, and that %q, %v", text, got, again, err)
		}
	})
}
