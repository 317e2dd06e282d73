package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
)

// What follows disturbs a fleet until its context ends, and leaves it as it was.

func highLoad(ctx context.Context, f *fleet) error {
	err := f.offer(float64(f.cell.rate) * 1.5)
	<-ctx.Done()
	return errors.Join(err, f.offer(float64(f.cell.rate)))
}

// idleInTx holds a transaction with an id, and with it the horizon of vacuum.
func idleInTx(ctx context.Context, f *fleet) error {
	return f.connected(func(hold context.Context, conn *pgx.Conn) error {
		if _, err := conn.Exec(hold, "BEGIN; SELECT pg_current_xact_id()"); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	})
}

// activeReaders are four long snapshots that count the first of the adapter's tables again and again.
func activeReaders(ctx context.Context, f *fleet) error {
	var g errgroup.Group
	for range 4 {
		g.Go(func() error {
			return f.connected(func(hold context.Context, conn *pgx.Conn) error {
				_, err := conn.Exec(hold, "BEGIN ISOLATION LEVEL REPEATABLE READ")
				for err == nil && pause(ctx, 100*time.Millisecond) {
					_, err = conn.Exec(hold, "SELECT count(*) FROM "+f.tables[0])
				}
				return err
			})
		})
	}
	return g.Wait()
}

// crash kills the first replica, and starts it again half a phase later.
func crash(ctx context.Context, f *fleet) error {
	f.replicas[0].kill()
	pause(ctx, f.phase/2)
	return f.start(0)
}

func repeatedKills(ctx context.Context, f *fleet) error {
	for pause(ctx, f.phase/3) {
		f.replicas[0].kill()
		pause(ctx, f.phase/20)
		if err := f.start(0); err != nil {
			return err
		}
	}
	return nil
}

// restartPostgres takes the server away for half a phase.
func restartPostgres(ctx context.Context, f *fleet) error {
	if err := f.server.Stop(); err != nil {
		return err
	}
	pause(ctx, f.phase/2)
	err := f.server.Start(context.WithoutCancel(ctx))
	<-ctx.Done()
	return err
}

// killBackends ends all that work in the database, twice a second.
func killBackends(ctx context.Context, f *fleet) error {
	return f.connected(func(hold context.Context, conn *pgx.Conn) error {
		for pause(ctx, time.Second/2) {
			if _, err := conn.Exec(hold, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
				WHERE datname = current_database() AND pid <> pg_backend_pid() AND state IN ('active', 'idle in transaction')`); err != nil {
				return err
			}
		}
		return nil
	})
}

// exhaustPool holds 300 of the server's 400 connections.
func exhaustPool(ctx context.Context, f *fleet) error {
	for n := range 300 {
		conn, err := pgx.Connect(context.WithoutCancel(ctx), f.server.URL())
		if err != nil {
			return fmt.Errorf("connection %d: %w", n+1, err)
		}
		defer conn.Close(context.WithoutCancel(ctx))
	}
	<-ctx.Done()
	return nil
}
