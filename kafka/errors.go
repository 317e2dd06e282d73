package kafka

import (
	"crypto/tls"
	"errors"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Errors that Run returns, wrapped in what names the topic, the partition and the offsets.
var (
	// ErrOutOfRange says that the broker has no record at the group's committed offset any more: retention removed
	// records that were not handled. Config.Reset says whether the worker goes on.
	ErrOutOfRange = errors.New("the committed offset is not in the log any more")
	// ErrDataLoss says that a log was truncated behind what had been read of it.
	ErrDataLoss = errors.New("the broker lost records that had been read")
	// ErrOtherLedger says that the group's offset was committed by a worker of another ledger, which knows of messages that
	// this one would do once more. Config.MovedFrom accepts that.
	ErrOtherLedger = errors.New("the group's offset was committed by a worker of another ledger")
	// ErrOversize says that a record is larger than the ledger archives, and Config.Oversize that such records end Run.
	ErrOversize = errors.New("the record is larger than the ledger archives")
	// ErrLargeBatch says that a batch of records unpacks to more than the client takes. Config.LargeBatch says whether the
	// worker goes on; kgo.MaxDecompressBatchBytes sets the limit.
	ErrLargeBatch = errors.New("the batch is too large to be unpacked")
)

// hopeless are the errors that no retry heals: somebody has to change a setting, a right or a password.
var hopeless = []error{
	kerr.SaslAuthenticationFailed, kerr.UnsupportedSaslMechanism, kerr.IllegalSaslState, kerr.SecurityDisabled,
	kerr.TopicAuthorizationFailed, kerr.GroupAuthorizationFailed, kerr.ClusterAuthorizationFailed,
	kerr.InvalidTopicException, kerr.InvalidGroupID, kerr.InconsistentGroupProtocol, kerr.InvalidSessionTimeout,
	kerr.FencedInstanceID, kerr.UnsupportedAssignor, kerr.UnsupportedVersion, kerr.OffsetMetadataTooLarge,
	ErrOutOfRange, ErrDataLoss, ErrOversize, ErrLargeBatch, ErrOtherLedger,
}

// heals says whether trying again may help.
func heals(err error) bool {
	return !slices.ContainsFunc(hopeless, func(h error) bool { return errors.Is(err, h) })
}

// isUntrusted says whether the client refuses a broker's certificate. It ends Run when it begins, like a refused login;
// later on, one broker with a wrong certificate is no reason to leave the others.
func isUntrusted(err error) bool {
	_, ok := errors.AsType[*tls.CertificateVerificationError](err)
	return ok
}
