package main

import (
	"context"
	"errors"
	"time"

	"github.com/IBM/sarama"
)

var sarama_ = library{saramaConsume, saramaProduce, saramaAdmin}

// saramaClient has those of its parts that its kind of client has.
type saramaClient struct {
	name          string
	transactional bool
	group         sarama.ConsumerGroup
	producer      sarama.SyncProducer
	admin         sarama.ClusterAdmin
}

func saramaConsume(name, bootstrap, topic, group, _, reset string, heartbeat time.Duration) (client, error) {
	options := sarama.NewConfig()
	options.ClientID = name
	options.Consumer.IsolationLevel = sarama.ReadCommitted
	if heartbeat > 0 {
		// A generation ends when its fetches have ended.
		options.Consumer.Group.Heartbeat.Interval, options.Consumer.MaxWaitTime = heartbeat, heartbeat
	}
	if reset == "earliest" {
		options.Consumer.Offsets.Initial = sarama.OffsetOldest
	}
	made, err := sarama.NewConsumerGroup([]string{bootstrap}, group, options)
	if err != nil {
		return nil, err
	}
	one := &saramaClient{name: name, group: made}
	go func() {
		for {
			err := made.Consume(context.Background(), []string{topic}, one)
			if errors.Is(err, sarama.ErrClosedConsumerGroup) {
				return
			}
			if err != nil {
				say(name, "trouble", err)
			}
		}
	}()
	return one, nil
}

func (one *saramaClient) Setup(session sarama.ConsumerGroupSession) error {
	owned := 0
	for _, partitions := range session.Claims() {
		owned += len(partitions)
	}
	say(one.name, "assigned", owned)
	return nil
}

func (one *saramaClient) Cleanup(sarama.ConsumerGroupSession) error {
	say(one.name, "assigned", 0)
	return nil
}

func (one *saramaClient) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		say(one.name, "record", string(message.Value))
		session.MarkMessage(message, "")
	}
	return nil
}

func saramaProduce(name, bootstrap string, transactional bool) (client, error) {
	options := sarama.NewConfig()
	options.ClientID = name
	options.Producer.Return.Successes = true
	if transactional {
		options.Producer.Transaction.ID = name
		options.Producer.Idempotent = true
		options.Producer.RequiredAcks = sarama.WaitForAll
		options.Net.MaxOpenRequests = 1
	}
	made, err := sarama.NewSyncProducer([]string{bootstrap}, options)
	return &saramaClient{name: name, transactional: transactional, producer: made}, err
}

func saramaAdmin(bootstrap string) (client, error) {
	made, err := sarama.NewClusterAdmin([]string{bootstrap}, sarama.NewConfig())
	return &saramaClient{admin: made}, err
}

func (one *saramaClient) send(topic, value string) error {
	if one.transactional {
		if err := one.producer.BeginTxn(); err != nil {
			return err
		}
	}
	_, _, err := one.producer.SendMessage(&sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder(value)})
	if err == nil && one.transactional {
		err = one.producer.CommitTxn()
	}
	return err
}

func (one *saramaClient) create(topic string) error {
	return one.admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 1}, false)
}

func (one *saramaClient) close() error {
	switch {
	case one.group != nil:
		return one.group.Close()
	case one.producer != nil:
		return one.producer.Close()
	}
	return one.admin.Close()
}
