package kafka

// LogName is the name under which a worker's ledger knows one partition: ledger.Position.Log, of which, with the leader
// epoch and the offset, a record's key is made. id is the topic's UUID, as the cluster's metadata tells it; zero for
// workers with Config.NameIdentity. For operators' tools, which look a record up by its position.
func LogName(cluster, topic string, id [16]byte, partition int32) string {
	return logName(cluster, topic, id, partition)
}
