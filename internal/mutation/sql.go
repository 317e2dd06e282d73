package main

import (
	"strings"
	"unicode"
)

// conjunct is a condition of a statement, from its first to behind its last byte.
type conjunct struct{ from, to int }

// ends are the words behind which no conjunct goes on, at its own depth of parentheses.
var ends = map[string]bool{
	"AND": true, "OR": true, "ORDER": true, "GROUP": true, "HAVING": true, "RETURNING": true, "LIMIT": true, "FOR": true, "UNION": true,
	"WINDOW": true, "THEN": true, "ELSE": true, "WHEN": true, "LEFT": true, "JOIN": true, "WHERE": true, "DO": true, "OFFSET": true, "SET": true,
}

// conjuncts finds what stands behind WHERE, ON, HAVING and AND in SQL. Dropped means: it is true for every row.
func conjuncts(text string) []conjunct {
	if !strings.Contains(text, "SELECT") && !strings.Contains(text, "UPDATE") && !strings.Contains(text, "DELETE") && !strings.Contains(text, "INSERT") {
		return nil
	}
	var out []conjunct
	words := wordsOf(text)
	between := false
	for i, w := range words {
		switch w.text {
		case "BETWEEN":
			between = true
		case "AND", "WHERE":
			if w.text == "AND" && between {
				between = false
				continue
			}
			if c := (conjunct{w.to, endOf(text, words[i+1:], w)}); strings.TrimSpace(text[c.from:c.to]) != "" {
				out = append(out, c)
			}
		}
	}
	return out
}

// word is a word of SQL in capitals, or a parenthesis.
type word struct {
	text     string
	from, to int
	depth    int
}

// wordsOf splits a statement into its words, without what is quoted or a comment.
func wordsOf(text string) []word {
	var out []word
	depth := 0
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case c == '\'' || c == '"':
			end := strings.IndexByte(text[i+1:], c)
			if end < 0 {
				return out
			}
			i += end + 2
		case strings.HasPrefix(text[i:], "--"):
			end := strings.IndexByte(text[i:], '\n')
			if end < 0 {
				return out
			}
			i += end
		case c == '(' || c == ')' || c == ';' || c == ',':
			if c == ')' {
				depth--
			}
			out = append(out, word{string(c), i, i + 1, depth})
			if c == '(' {
				depth++
			}
			i++
		case isWord(rune(c)):
			from := i
			for i < len(text) && isWord(rune(text[i])) {
				i++
			}
			out = append(out, word{strings.ToUpper(text[from:i]), from, i, depth})
		default:
			i++
		}
	}
	return out
}

func isWord(r rune) bool { return r == '_' || r == '$' || unicode.IsLetter(r) || unicode.IsDigit(r) }

// endOf is where the condition ends that begins behind a word.
func endOf(text string, behind []word, at word) int {
	cases, between := 0, false
	for _, w := range behind {
		switch {
		case w.depth < at.depth, w.depth == at.depth && (w.text == ";" || w.text == ","):
			return w.from
		case w.depth > at.depth:
		case w.text == "CASE":
			cases++
		case w.text == "END" && cases > 0:
			cases--
		case w.text == "BETWEEN":
			between = true
		case w.text == "AND" && between:
			between = false
		case cases == 0 && (ends[w.text] || w.text == "END"):
			return w.from
		}
	}
	return len(text)
}
