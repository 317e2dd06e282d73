package sqstest

// actions are all that the server answers, by their name in X-Amz-Target.
var actions = map[string]action{
	"CreateQueue":                  on((*Server).createQueue),
	"GetQueueUrl":                  on((*Server).getQueueURL),
	"ListQueues":                   on((*Server).listQueues),
	"DeleteQueue":                  on((*Server).deleteQueue),
	"PurgeQueue":                   on((*Server).purgeQueue),
	"GetQueueAttributes":           on((*Server).getQueueAttributes),
	"SetQueueAttributes":           on((*Server).setQueueAttributes),
	"TagQueue":                     on((*Server).tagQueue),
	"UntagQueue":                   on((*Server).untagQueue),
	"ListQueueTags":                on((*Server).listQueueTags),
	"ListDeadLetterSourceQueues":   on((*Server).listDeadLetterSources),
	"SendMessage":                  on((*Server).sendMessage),
	"SendMessageBatch":             on((*Server).sendMessageBatch),
	"ReceiveMessage":               on((*Server).receiveMessage),
	"DeleteMessage":                on((*Server).deleteMessage),
	"DeleteMessageBatch":           on((*Server).deleteMessageBatch),
	"ChangeMessageVisibility":      on((*Server).changeMessageVisibility),
	"ChangeMessageVisibilityBatch": on((*Server).changeMessageVisibilityBatch),
	"StartMessageMoveTask":         on((*Server).startMoveTask),
	"ListMessageMoveTasks":         on((*Server).listMoveTasks),
	"CancelMessageMoveTask":        on((*Server).cancelMoveTask),
}

// empty is the answer of actions that return nothing.
type empty struct{}

// queueRef is the part of a request that names its queue.
type queueRef struct{ QueueUrl string }

func (r queueRef) target() string { return r.QueueUrl }
