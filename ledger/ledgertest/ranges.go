package ledgertest

// rangeCases are what only ranges have.
var rangeCases = []testCase{}

var rangeSweepCases = []testCase{}

var rangeProcessCases = []testCase{}
