// Package services fetches and starts the real servers that the integration tests need: PostgreSQL 14 to 18, Apache
// Kafka (KRaft), ElasticMQ (an SQS-compatible server) and Dynoxide (one that speaks DynamoDB's protocol). It needs no
// root, no Docker and no step by hand, only Java 17, Maven and npm. It is for tests and benchmarks, on Linux and macOS.
//
// A test asks for a server and gets something of its own on it:
//
//	db := services.Postgres(t)    // a fresh database, dropped when the test ends
//	brokers := services.Kafka(t)  // shared brokers: use services.Name(t) for topics and groups
//	endpoint := services.ElasticMQ(t)
//	tables := services.DynamoDB(t) // an endpoint: use services.Name(t) for tables
//
// These servers are started once per process, or, better, once per run by the command withservices, which names them in
// the environment ([EnvPostgres], [EnvPostgres14], [EnvKafka], [EnvSQS], [EnvDynamoDB]). A user who has servers names them there too.
//
// A test that stops, kills or reconfigures a server starts one for itself: [StartPostgres], [StartKafka],
// [StartElasticMQ], [StartDynamoDB]. Such a server keeps its port and its data over Stop or Kill and Start.
//
// # No server is left behind
//
// Every server dies with the process that started it, also when that process is killed. On Linux the kernel sees to it
// (PR_SET_PDEATHSIG, prctl(2)). That signal is tied to the thread that forked, not to the process: Go ends threads as
// it likes, so all servers are forked from one goroutine that keeps its thread for ever. Elsewhere a shell waits on a
// pipe that only the parent holds, and kills the server when the pipe closes.
//
// Data lies in temporary folders, each locked by the process that uses it. Whoever starts a server removes the folders
// whose lock is free: what a killed process could not remove goes with the next run.
//
// # Fetching
//
// Versions stand in one pom.xml per server, beside this file; Dynoxide's in a package.json, with the checksums of its
// programs in the lock. Maven and npm fetch them once, with their own settings, into
// ${XDG_CACHE_HOME:-~/.cache}/ackledger (macOS: the user's cache folder). A file lock lets one process fetch while the
// others wait, and a finished folder appears by one rename.
package services
