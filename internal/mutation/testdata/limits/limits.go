// Package limits is what the command's own test changes.
package limits

const statement = `SELECT n FROM t WHERE (a = 1 OR b = 2) AND c BETWEEN 3 AND 4 AND d = 5`

// Statement is SQL.
func Statement() string { return statement }

// Within says whether n is in bounds; the tests never try n = 10.
func Within(n int) bool {
	if n < 0 {
		return false
	}
	return n <= 10
}

// Double doubles, in two statements that both count.
func Double(n int) (int, error) {
	twice := n
	twice += n
	return twice, nil
}

// Unused is called by nobody.
func Unused() int { return 1 }
