// Package operate has what the command and the web page both need to show things to people: numbers, ages and names that are safe
// to look at, points in time as people write them, and a body that is mended by hand beside the one that failed. It is pure: the
// time is the caller's.
package operate
