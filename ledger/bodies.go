package ledger

import "context"

type bodiless struct{}

// WithoutBodies asks [Operator.Get] and [Operator.Find] for archived deliveries without their bodies, which may be large:
// ArchiveRecord.BodyBytes says how long each is. Headers come as ever, sealed ones sealed. A ledger that does not know of it
// reads the bodies all the same.
func WithoutBodies(ctx context.Context) context.Context {
	return context.WithValue(ctx, bodiless{}, true)
}

// NoBodies says whether [WithoutBodies] was asked for. Stores call it.
func NoBodies(ctx context.Context) bool { return ctx.Value(bodiless{}) != nil }

// Size is what counts against Limits.Archive, in bytes, also where the body was left out.
func (r *ArchiveRecord) Size() int { return r.Archive.Size() + r.BodyBytes }
