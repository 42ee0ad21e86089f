// Package table keeps rows in a compacted topic: the newest value of each key, and nothing for a key that was deleted.
package table

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	partition = 0
	// A log may end in a gap, where records were compacted away: silence is the end, too.
	idle = 500 * time.Millisecond
)

// Row is a record of the table; a nil value deletes its key.
type Row struct {
	Key   string
	Value *string
}

// Table is the rows of one topic of one partition. Writes are idempotent, as franz-go has it.
type Table struct {
	bootstrap, topic string
}

func (t Table) client(options ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append(options,
		kgo.SeedBrokers(t.bootstrap),
		kgo.MetadataMinAge(10*time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }),
	)...)
}

// Put sets rows, in order.
func (t Table) Put(ctx context.Context, rows ...Row) error {
	client, err := t.client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return err
	}
	defer client.Close()
	records := make([]*kgo.Record, len(rows))
	for i, row := range rows {
		records[i] = &kgo.Record{Topic: t.topic, Partition: partition, Key: []byte(row.Key)}
		if row.Value != nil {
			records[i].Value = []byte(*row.Value)
		}
	}
	return client.ProduceSync(ctx, records...).FirstErr()
}

// Rows is the table as it is now.
func (t Table) Rows(ctx context.Context) (map[string]string, error) {
	found := map[string]string{}
	history, err := t.History(ctx)
	for _, row := range history {
		if row.Value == nil {
			delete(found, row.Key)
		} else {
			found[row.Key] = *row.Value
		}
	}
	return found, err
}

// History is all records that are left in the log.
func (t Table) History(ctx context.Context) ([]Row, error) {
	start, end, err := t.Offsets(ctx)
	if err != nil || start == end {
		return nil, err
	}
	client, err := t.client(
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{t.topic: {partition: kgo.NewOffset().AtStart()}}),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxWait(10*time.Millisecond),
	)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	var found []Row
	for wait := 4 * idle; ; wait = idle {
		polling, cancel := context.WithTimeout(ctx, wait)
		fetches := client.PollFetches(polling)
		cancel()
		if errors.Is(fetches.Err0(), context.DeadlineExceeded) {
			return found, ctx.Err()
		}
		if err := fetches.Err(); err != nil {
			return found, err
		}
		for _, record := range fetches.Records() {
			row := Row{Key: string(record.Key)}
			if record.Value != nil {
				value := string(record.Value)
				row.Value = &value
			}
			found = append(found, row)
			if record.Offset+1 >= end {
				return found, nil
			}
		}
	}
}

// Offsets says where the log begins, inclusive, and ends, exclusive.
func (t Table) Offsets(ctx context.Context) (start, end int64, err error) {
	client, err := t.client()
	if err != nil {
		return 0, 0, err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	starts, err := admin.ListStartOffsets(ctx, t.topic)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return 0, 0, err
	}
	ends, err := admin.ListCommittedOffsets(ctx, t.topic)
	if err == nil {
		err = ends.Error()
	}
	first, _ := starts.Lookup(t.topic, partition)
	last, _ := ends.Lookup(t.topic, partition)
	return first.Offset, last.Offset, err
}
