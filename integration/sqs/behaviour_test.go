package sqs_test

import "slices"

// behaviours are all cases. Sources are pages of the Amazon SQS API reference
// ("API") and developer guide ("Guide") unless they say otherwise.
func behaviours() []behaviour {
	return slices.Concat(sendCases, batchCases, visibilityCases, fifoCases, redriveCases)
}
