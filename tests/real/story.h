// story.h - a text of our own, for models to read: about 720 words, with facts in it that can be asked for.
#pragma once

namespace pith::testing {

inline constexpr const char * kStory =
    R"(The ferry to Corran left at twenty past six, an hour before the sun, and Marta Lindqvist was the only passenger who had
brought a ladder. It was a good ladder, made of ash, and it had belonged to her grandfather, who had painted every church
tower between the river and the sea. The captain asked twice whether she needed it on an island that had no churches. She
answered that the island had a lighthouse, and that a lighthouse was taller than most churches and in worse repair.

The lighthouse of Corran Head had been dark for eleven years. When the harbour board replaced it with a buoy, the keeper
locked the door, hung the key on a nail in the post office, and moved to his daughter's house in the hills. Nobody took the
key. The paint came off in the winter storms, first from the west side and then from all the others, and gulls built their
nests in the gallery. From the mainland the tower looked like a tooth that somebody had forgotten to pull.

What had changed was a letter. A small foundation, which until then had paid for bridges and school roofs, offered forty
thousand crowns to anyone who would bring the light back before the first of November. The conditions were written on a
single page. The lamp had to be the old one, the lens had to be cleaned by hand, and the work had to be done by people who
lived within a day's journey. Marta read the page standing in her kitchen, and then she read it again sitting down.

She began with the door, since the key no longer turned. A locksmith would have cost her a week, so she took the hinges off
instead and carried the whole door down to the beach, where she sanded it until the grain showed. Behind it the stairs went
up in a spiral of a hundred and thirty-two steps, each of them cut from the same grey stone, each worn in the middle. On the
ninth landing she found the keeper's logbook, wrapped in oilcloth, and in it the weather of thirty-one winters.

The logbook turned out to be the most useful thing in the tower. It said that the lens must never be washed with soap, only
with vinegar and rain water, because the harbour's well was full of iron. It said which of the windows leaked when the wind
came from the north-east, and that the answer was tallow, not putty. On the last page the keeper had written the number of
the crate in which he had packed the spare mantles, 4471, and the name of the man who had taken it for safety: Tobias Renn,
the baker.

Tobias Renn was eighty by now and did not bake any more, but he remembered the crate. It stood under the stairs of his
house, behind a pram and a broken accordion, and it had never been opened. He would not take money for it. What he wanted,
he said, was to be the one who lit the lamp, because he had been born in the year in which it was built, and because from
his bedroom he had looked at a dark tower for eleven years and had not got used to it.

So it was agreed. Through September Marta scraped and painted from the top downwards, hanging in a chair that she had made
of two planks and the ash ladder, and in the evenings she rubbed the lens with vinegar until she could see her own face in
it, upside down and far away. The children of the island brought her soup. The captain of the ferry, who had laughed at the
ladder, brought her a barrel of rain water every Thursday and refused to say where he had found so much of it.

On the twenty-sixth of October, five days before the end, everything was ready except the weather. A gale came in from the
west and stayed for three nights. On the fourth evening it dropped, and the whole village climbed the hill in coats and
blankets. Tobias Renn went up the hundred and thirty-two steps one at a time, resting on each landing, and nobody hurried
him. When the light finally swept across the water, the people on the mainland came out of their doors, and some of them,
who were too young to have ever seen it, asked what it was.
)";

}  // namespace pith::testing
