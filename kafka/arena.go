package kafka

import "strconv"

// arena hands out pieces of one allocation.
type arena []byte

// clone copies p. Nil stays nil, and empty stays empty.
func (a *arena) clone(p []byte) []byte {
	if p == nil {
		return nil
	}
	n := len(*a)
	*a = append(*a, p...)
	return (*a)[n:len(*a):len(*a)]
}

// recordID appends a record's readable identity: its assignment's name and the offset.
func (a *arena) recordID(name string, offset int64) []byte {
	n := len(*a)
	*a = strconv.AppendInt(append(append(*a, name...), '-'), offset, 10)
	return (*a)[n:len(*a):len(*a)]
}

// deliveryID appends the id of one record as one copy of a message: the log, the leader epoch and the offset.
func (a *arena) deliveryID(log string, epoch int32, offset int64) []byte {
	n := len(*a)
	b := append(append(*a, log...), '/')
	b = append(strconv.AppendInt(b, int64(epoch), 10), '/')
	*a = strconv.AppendInt(b, offset, 10)
	return (*a)[n:len(*a):len(*a)]
}
