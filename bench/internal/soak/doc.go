// Package soak judges and shows what a long run at full load has measured of a worker's process: whether its memory stays
// flat, in a chart and a section of a page. It is pure; the run itself is the command bench/soak.
package soak
