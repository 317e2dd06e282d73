// Package storage holds what the author of a store needs beside the interfaces of ledger/driver: the stored forms of what has no column of
// its own, and the ids and tokens of a ledger's epochs.
//
//	list := storage.AppendError(nil, ledger.AttemptError{Attempt: 1, Kind: ledger.KindTimeout, Error: "no answer"}, limit)
//	list = storage.AppendError(list, ledger.AttemptError{Attempt: 2, Kind: ledger.KindError, Error: "the bank refuses"}, limit)
//	column := storage.EncodeErrors(list)
//
//	read, err := storage.DecodeErrors(column)
//	if err != nil {
//		fmt.Println(err)
//		return
//	}
//
// A store may keep its rows in other forms. These keep every byte: names, headers and scopes may be no UTF-8, nil is not empty, and order and
// duplicates stay. They are the same in all stores of this module, and what was stored once can be read by later versions.
//
//   - errors and headers of messages and archived deliveries: [EncodeErrors], [EncodeHeaders]
//   - audit rows: [EncodeAudit]; where a look by index begins: [FirstAudit]
//   - what is too long for [ledger.Limits]: [AppendError], [CutResult]
//   - a call's deadline, and what is not known of one that writes several times: [WithDeadline], [MarkPartly]
//   - the id of a ledger, and its epochs for a [ledger.Recoverer]: [IsLedgerID], [EpochOf], [InEpoch], [TokenFloor], [CheckRecovery],
//     [RecoveryRecord]
//
// All is pure, and safe for concurrent use.
package storage
