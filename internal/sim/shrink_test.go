package sim

import (
	"reflect"
	"strings"
	"testing"
)

// A broken world is made as small as it can be: what is left of it is needed.
func TestShrink(t *testing.T) {
	t.Parallel()
	large := Drawn(1)
	large.Workers, large.Messages, large.Keys = 3, 40, 8
	for k := range large.Moods {
		large.Moods[k] = 4
	}
	runs := 0
	small := shrink(&Broken{Config: large, Promise: "it holds: it did not"}, func(c Config) (Report, error) {
		runs++
		switch {
		case c.Messages < 3 || c.Keys == 0 || c.Moods[answerLost] == 0 || c.Seed%3 != 0:
			return Report{}, nil
		case c.Workers < 2:
			return Report{}, &Broken{Config: c, Promise: "another: it did not"}
		}
		return Report{}, &Broken{Config: c, Promise: "it holds: it did not, otherwise"}
	})
	c := small.Config
	moods := c.Moods
	moods[answerLost] = 0
	if c.Messages != 3 || c.Keys != 8 || c.Workers != 2 || c.Partitions != 1 || c.Concurrency != 1 || c.Moods[answerLost] == 0 || moods != [kinds]float64{} {
		t.Errorf("after %d runs: %+v", runs, c)
	}
	if c.InTx || c.Ranged || c.Batch != 0 || c.Failures != 0 || c.Budget != 0 {
		t.Errorf("%+v", c)
	}
}

// A story is of the message whose promise is broken, and of what has to do with all.
func TestStoriesAreShort(t *testing.T) {
	t.Parallel()
	w := newWorld(Config{Workers: 1, Partitions: 1, Messages: 1})
	w.traced = true
	for i := range 100 {
		w.note(nil, "does", message{0, int64(i % 2)}, int64(i))
	}
	w.note(nil, "ends", none, 0)
	w.breaks(message{0, 1}, "it holds: it did not")
	if s := w.broken.Steps; len(s) != mostSteps || strings.Contains(strings.Join(s, "\n"), " 0-0 ") || !strings.HasSuffix(s[len(s)-1], "ends") {
		t.Errorf("%q", s)
	}
}

// Each option of a world can be made smaller: one that is not would stay in every story.
func TestEveryOptionIsReduced(t *testing.T) {
	t.Parallel()
	var large Config
	all := reflect.ValueOf(&large).Elem()
	for i := range all.NumField() {
		switch f := all.Field(i); f.Kind() {
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Int, reflect.Int64:
			f.SetInt(1e9)
		case reflect.Array:
			for k := range f.Len() {
				f.Index(k).Set(reflect.ValueOf(1).Convert(f.Index(k).Type()))
			}
		}
	}
	small := large
	for _, smaller := range reductions {
		smaller(&small)
	}
	for i := range all.NumField() {
		name := all.Type().Field(i).Name
		if was, is := all.Field(i), reflect.ValueOf(small).Field(i); is.Equal(was) && name != "Seed" && name != "Calm" {
			t.Errorf("%s is not made smaller by any reduction", name)
		}
	}
}
