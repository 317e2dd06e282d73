// Package report shows what a benchmark measured: as a table for a terminal, as a page in Markdown, and as a chart.
package report
