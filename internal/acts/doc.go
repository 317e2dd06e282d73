// Package acts holds what the stores have in common of what operators do to messages: lists page after page ([List], [Find]), acts batch by
// batch ([Reopen], [Purge]), the audit rows of these, and the names that they give to archived deliveries.
package acts
