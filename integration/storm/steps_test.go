package storm_test

import (
	"context"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/ackledger/ackledger/sqs/sqstest"
)

// step is a place in a worker's way at which its process may kill itself.
type step string

const (
	afterReceive step = "after the receive"
	beforeEffect step = "before the effect"
	beforeCommit step = "between effect and commit"
	afterCommit  step = "between commit and settle"
	beforeDelete step = "between settle and acknowledge"
	afterDelete  step = "after the acknowledge"
)

// passed counts how often this process came by its step.
var passed atomic.Int64

// dieAt kills the process, as kill -9 does, when it has come by its step often enough: others are then on their way.
func (o orders) dieAt(s step) {
	if o.Die == s && passed.Add(1) > int64(o.Half) {
		o.die()
	}
}

func (o orders) die() {
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGKILL); err != nil {
		panic(err)
	}
	select {} // the signal is on its way
}

// dying is a client whose process may die around its calls.
type dying struct {
	*awssqs.Client
	orders orders
}

func (d dying) ReceiveMessage(ctx context.Context, in *awssqs.ReceiveMessageInput, o ...func(*awssqs.Options)) (*awssqs.ReceiveMessageOutput, error) {
	out, err := d.Client.ReceiveMessage(ctx, in, o...)
	if err == nil && len(out.Messages) > 0 {
		d.orders.dieAt(afterReceive)
	}
	return out, err
}

func (d dying) DeleteMessageBatch(ctx context.Context, in *awssqs.DeleteMessageBatchInput, o ...func(*awssqs.Options)) (*awssqs.DeleteMessageBatchOutput, error) {
	d.orders.dieAt(beforeDelete)
	out, err := d.Client.DeleteMessageBatch(ctx, in, o...)
	d.orders.dieAt(afterDelete)
	return out, err
}

// A worker is killed with SIGKILL at each step of a message's way, in the middle of its work. Settled before the effect,
// or acknowledged before the settle, a message is lost; settled in another commit than the effect, it is done twice.
func TestPitfall68_KilledAtEachStep(t *testing.T) {
	t.Parallel()
	const n = 60
	d := newDatabase(t)
	for i, s := range []step{afterReceive, beforeEffect, beforeCommit, afterCommit, beforeDelete, afterDelete} {
		t.Run(string(s), func(t *testing.T) {
			server := sqstest.Start(t, nil)
			q := newMailbox(t, server.URL, false)
			q.send(0, n)
			half, all := n/2, n+d.count(t, `SELECT count(*) FROM effect`)
			if s == afterReceive || s == beforeDelete || s == afterDelete {
				half = 2 // calls, with up to ten messages each
			}
			c := newCrew(t, orders{Database: d.server.URL(), Queue: q.url, Endpoint: server.URL,
				Group: "step " + strconv.Itoa(i), Die: s, Half: half})
			m := c.start()
			select {
			case <-m.done:
				c.forget(m)
				if m.err == nil {
					t.Fatal("the process ended by itself")
				}
			case <-time.After(time.Minute):
				t.Fatal("the process did not come by its step")
			}
			if d.count(t, `SELECT count(*) FROM effect`) == all && s != afterDelete {
				t.Error("the process was killed after all its work: nothing is tested")
			}
			c.orders.Die = ""
			c.start()
			eventually(t, 2*time.Minute, func() string { return progress(d, n, all) })
			eventually(t, time.Minute, q.left)
			c.dismiss(c.all()[0])
			expectEffects(t, d, n, all)
		})
	}
}
