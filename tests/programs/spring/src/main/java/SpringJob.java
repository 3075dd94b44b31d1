import static org.springframework.data.redis.connection.stream.StreamOffset.create;

import java.net.URI;
import java.time.Duration;
import java.util.Map;
import org.springframework.data.domain.Range;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.data.redis.connection.stream.Consumer;
import org.springframework.data.redis.connection.stream.MapRecord;
import org.springframework.data.redis.connection.stream.PendingMessage;
import org.springframework.data.redis.connection.stream.ReadOffset;
import org.springframework.data.redis.connection.stream.RecordId;
import org.springframework.data.redis.core.StreamOperations;
import org.springframework.data.redis.core.StringRedisTemplate;
import org.springframework.data.redis.stream.StreamMessageListenerContainer;
import org.springframework.data.redis.stream.StreamMessageListenerContainer.StreamMessageListenerContainerOptions;

/**
 * Spring Data Redis on Lettuce: a listener container reads a stream as a consumer of a group, and the entries of
 * consumers that died are claimed.
 *
 * <p>java SpringJob work URL NAME | publish URL
 */
public final class SpringJob {
  private final StreamOperations<String, Object, Object> streams;

  private SpringJob(StringRedisTemplate template) {
    streams = template.opsForStream();
  }

  public static void main(String[] words) throws Exception {
    URI url = URI.create(words[1]);
    LettuceConnectionFactory factory = new LettuceConnectionFactory(url.getHost(), url.getPort());
    factory.afterPropertiesSet();
    factory.start();
    SpringJob job = new SpringJob(new StringRedisTemplate(factory));
    if (words[0].equals("work")) {
      job.work(factory, words[2]);
    } else {
      for (int number = 0; number < Integer.parseInt(System.getenv("JOBS")); number++) {
        job.streams.add("in", Map.of("number", Integer.toString(number)));
      }
      factory.destroy();
    }
  }

  private void work(LettuceConnectionFactory factory, String name) throws Exception {
    try {
      streams.createGroup("in", ReadOffset.from("0"), "workers");
    } catch (RuntimeException exists) {
      if (!String.valueOf(exists.getCause()).contains("BUSYGROUP")) {
        throw exists;
      }
    }
    var options =
        StreamMessageListenerContainerOptions.builder().pollTimeout(Duration.ofMillis(100)).batchSize(4).build();
    var container = StreamMessageListenerContainer.create(factory, options);
    container.receive(
        Consumer.from("workers", name),
        create("in", ReadOffset.lastConsumed()),
        record -> square(record.getId(), record.getValue().get("number")));
    container.start();
    while (true) {
      Thread.sleep(200);
      RecordId[] left =
          streams.pending("in", "workers", Range.unbounded(), 100).stream()
              .filter(each -> each.getElapsedTimeSinceLastDelivery().toMillis() > 500)
              .map(PendingMessage::getId)
              .toArray(RecordId[]::new);
      if (left.length > 0) {
        for (MapRecord<String, Object, Object> record :
            streams.claim("in", "workers", name, Duration.ofMillis(500), left)) {
          square(record.getId(), record.getValue().get("number").toString());
        }
      }
    }
  }

  private void square(RecordId id, String text) {
    try {
      Thread.sleep(20);
    } catch (InterruptedException interrupted) {
      return;
    }
    int number = Integer.parseInt(text);
    streams.add("out", Map.of("result", "square:" + number + ":" + number * number));
    streams.acknowledge("in", "workers", id);
  }
}
